"""Pods of one role share their failures inside a job, unless that is turned off."""

from __future__ import annotations

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import made, option
from muster.actions import allocate, preempt
from muster.config.types import Arguments, Config, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.session import Session
from muster.engine.core.state import State

ROLE = "volcano.sh/task-spec"


def opened(state: State, action: str, cache: bool | None, *names: str, compatibility: str = "volcano") -> Session:
    plugins = tuple(option(name) for name in names)
    given = {} if cache is None else {action: Arguments({"predicateErrorCacheEnable": cache})}
    config = Config((action,), (Tier(plugins),), given, compatibility)
    return Session(state, config, [[plugin_class(p.name)(p.arguments, p) for p in plugins]], 0.0)


def binds(roles: tuple[str, str], cache: bool | None = None, small: int = 1) -> dict[str, str]:
    """`a-job-0` wants 8 cpu, which n2 does not have; `a-job-1` would rather be alone on n2."""
    state = state_of(
        node("n1", cpu=10), node("n2", cpu=4), queue("q"), group("a", "q", minMember=2, phase="Inqueue"),
        pod("a-job-0", "a", annotations={ROLE: roles[0]}, requests={"cpu": 8}),
        pod("a-job-1", "a", annotations={ROLE: roles[1]}, requests={"cpu": small}),
    )  # fmt: skip
    live = opened(state, "allocate", cache, "gang", "predicates", "nodeorder")
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


@pytest.mark.parametrize(
    ("compatibility", "cache", "evicted"),
    [
        ("volcano", None, []),
        ("volcano", True, []),
        ("volcano", False, ["v1", "v2"]),
        ("", None, ["v1", "v2"]),
        ("", True, ["v1", "v2"]),
    ],
)
def test_preempt_by_volcano_does_not_ask_for_a_node_that_a_pod_of_the_role_could_not_have(
    compatibility: str, cache: bool | None, evicted: list[str]
) -> None:
    """`a-job-0` may run on n1 only; `a-job-1`, of the same role, finds capacity on n2 alone: both are needed.

    muster's own rules serve a claim if there is any way to place it.
    """
    small = {"cpu": 4}
    state = state_of(
        node("n1", cpu=4), node("n2", cpu=4), queue("q"),
        group("low", "q", minMember=0, phase="Inqueue"),
        group("a", "q", minMember=2, phase="Inqueue", priorityClassName="high"),
        made("scheduling.k8s.io/v1", "PriorityClass", {"name": "high"}, value=10),
        pod("v1", "low", "n1", requests=small), pod("v2", "low", "n2", requests=small),
        pod("a-job-0", "a", annotations={ROLE: "worker"}, requests=small, affinity=only_on("n1"), priority=10),
        pod("a-job-1", "a", annotations={ROLE: "worker"}, requests=small, priority=10),
    )  # fmt: skip
    live = opened(state, "preempt", cache, "priority", "gang", "predicates", compatibility=compatibility)
    preempt.run(live)
    assert sorted(m.task.name for m in live.committed if m.rule) == evicted


def only_on(name: str) -> dict[str, object]:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def placed(roles: dict[str, int], *members: tuple[str, str, int], least: int) -> list[str]:
    """A node of 4 cpu; the members are (name, role, cpu)."""
    pods = [
        pod(name, "a", annotations={ROLE: role} if role else {}, requests={"cpu": cpu} if cpu else {})
        for name, role, cpu in members
    ]
    state = state_of(
        node("n1", cpu=4), queue("q"), group("a", "q", minMember=least, phase="Inqueue", minTaskMember=roles), *pods
    )
    live = opened(state, "allocate", None, "gang", "predicates")
    allocate.run(live)
    return sorted(t.name for m in live.committed for t in m.tasks)


def test_pods_that_ask_for_nothing_count_for_their_role() -> None:
    """The role has its one pod, which backfill will place, so that another of it may fail."""
    members = [("x-w-0", "worker", 8), ("x-w-1", "worker", 0), ("x-m-2", "master", 1)]
    assert placed({"worker": 1, "master": 1}, *members, least=2) == ["x-m-2"]


def test_pods_without_a_role_do_not_count_once_one_of_them_failed() -> None:
    """minMember is less than the roles' minimums: two more are needed, and only one master is left to hope for."""
    members = [("x-n-0", "", 8), ("x-n-1", "", 1), ("x-m-2", "master", 1)]
    assert placed({"master": 3}, *members, least=2) == []
