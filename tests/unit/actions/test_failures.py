"""Pods of one role share their failures inside a job, unless that is turned off."""

from __future__ import annotations

import pytest

from muster.actions import allocate
from muster.config.types import Arguments, Config, Tier
from muster.cycle.registry import plugin_class
from muster.engine.session import Session
from queued_jobs import group, node, option, pod, queue, world

ROLE = "volcano.sh/task-spec"


def binds(roles: tuple[str, str], cache: bool | None = None, small: int = 1) -> dict[str, str]:
    """`a-job-0` wants 8 cpu, which n2 does not have; `a-job-1` would rather be alone on n2."""
    state = world(
        node("n1", cpu=10), node("n2", cpu=4), queue("q"), group("a", least=2),
        pod("a-job-0", "a", notes={ROLE: roles[0]}, asks={"cpu": 8}),
        pod("a-job-1", "a", notes={ROLE: roles[1]}, asks={"cpu": small}),
    )  # fmt: skip
    plugins = (option("gang"), option("predicates"), option("nodeorder"))
    given = {} if cache is None else {"allocate": Arguments({"predicateErrorCacheEnable": cache})}
    config = Config(("allocate",), (Tier(plugins),), given)
    live = Session(state, config, [[plugin_class(p.name)(p.arguments, p) for p in plugins]], 0.0)
    allocate.run(live)
    names = state.nodes.names
    return {t.name: names[n] for m in live.committed for t, n in zip(m.tasks, m.nodes, strict=True)}


@pytest.mark.parametrize(
    ("roles", "cache", "node"),
    [
        (("worker", "worker"), None, "n1"),
        (("worker", "worker"), True, "n1"),
        (("worker", "worker"), False, "n2"),
        (("worker", "master"), None, "n2"),
        (("", ""), None, "n2"),
    ],
)
def test_a_node_that_one_pod_of_a_role_failed_on_is_not_offered_to_the_next(
    roles: tuple[str, str], cache: bool | None, node: str
) -> None:
    assert binds(roles, cache) == {"a-job-0": "n1", "a-job-1": node}


def test_a_node_that_a_pod_fills_itself_is_no_failure() -> None:
    assert binds(("worker", "worker"), small=2) == {"a-job-0": "n1", "a-job-1": "n1"}


def test_a_job_may_fail_for_it() -> None:
    assert binds(("worker", "worker"), small=3) == {}
    assert binds(("worker", "worker"), cache=False, small=3) == {"a-job-0": "n1", "a-job-1": "n2"}
