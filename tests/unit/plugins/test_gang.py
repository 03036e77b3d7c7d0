"""gang: minimums of jobs, roles and sub-groups; what is above a minimum may be taken."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, of, opened, task, tasks
from muster.engine.core.hooks import Vote
from muster.engine.core.state import State
from muster.plugins.gang import Gang

ROLE = "volcano.sh/task-spec"


def roles(least: int, minimums: dict[str, int], **counts: int) -> State:
    pods = [pod(f"a-{r}-{i}", "a", annotations={ROLE: r}) for r, n in counts.items() for i in range(n)]
    return state_of(
        node(cpu=10),
        queue("q"),
        group("a", "q", minMember=least, phase="Inqueue", minTaskMember=minimums),
        *pods,
    )


@pytest.mark.parametrize(
    ("running", "waiting", "least", "missing"),
    [(0, 3, 3, 3), (2, 3, 3, 1), (3, 3, 3, 0), (4, 0, 3, 0), (0, 3, 0, 0)],
)
def test_what_is_missing_to_the_minimum(running: int, waiting: int, least: int, missing: int) -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", running=running, waiting=waiting, least=least))
    _, gang = opened(Gang, state)
    assert gang.missing(of(state, "a")) == missing


def test_pods_that_ask_for_nothing_count_as_if_they_had_capacity() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        group("a", "q", minMember=2, phase="Inqueue"),
        pod("a-1", "a"),
        pod("a-2", "a", requests={}),
        pod("a-3", "a", requests={}),
    )
    live, gang = opened(Gang, state)
    assert gang.missing(of(state, "a")) == 0
    live.statement().allocate(tasks(state, "a-2"), [0])
    assert gang.missing(of(state, "a")) == 0


def test_too_few_pods_are_named_with_their_numbers() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=2, least=3))
    _, gang = opened(Gang, state)
    reason = gang.valid(of(state, "a"))
    assert reason is not None
    assert (reason.code, reason.text) == (
        "not-enough-tasks",
        "Not enough valid tasks for gang-scheduling, valid: 2, min: 3",
    )


def test_each_role_needs_its_own_minimum() -> None:
    state = roles(3, {"master": 1, "worker": 2}, master=1, worker=3)
    live, gang = opened(Gang, state)
    a = of(state, "a")
    assert gang.valid(a) is None
    assert gang.missing(a) == 3
    statement = live.statement()
    statement.allocate(tasks(state, "a-worker-0", "a-worker-1", "a-worker-2"), [0, 0, 0])
    assert gang.missing(a) == 1  # three pods run, the master does not
    statement.allocate(tasks(state, "a-master-0"), [0])
    assert gang.missing(a) == 0
    statement.discard()
    assert gang.missing(a) == 3


def test_a_role_with_too_few_pods_makes_the_job_invalid() -> None:
    _, gang = opened(Gang, state := roles(3, {"master": 1, "worker": 2}, worker=5))
    reason = gang.valid(of(state, "a"))
    assert reason is not None and reason.code == "not-enough-pods-of-task"


def test_roles_are_not_looked_at_when_their_sum_is_above_the_minimum() -> None:
    _, gang = opened(Gang, state := roles(2, {"master": 1, "worker": 2}, worker=2))
    assert gang.valid(of(state, "a")) is None
    assert gang.missing(of(state, "a")) == 2


def test_pipelined_pods_count_for_pipelined_and_not_for_ready() -> None:
    state = roles(2, {"master": 1, "worker": 1}, master=1, worker=1)
    live, gang = opened(Gang, state)
    a = of(state, "a")
    live.statement().allocate(tasks(state, "a-master-0"), [0])
    assert (gang.missing(a), gang.pipelined(a)) == (1, Vote.REJECT)
    live.statement().pipeline(tasks(state, "a-worker-0"), [0])
    assert (gang.missing(a), gang.pipelined(a)) == (1, Vote.PERMIT)


def sub_groups(values: str, **policy: Any) -> State:
    """A pod per letter, whose label `shard` is the letter."""
    pods = [pod(f"a-{i}", "a", labels={"shard": v}) for i, v in enumerate(values)]
    given = {"name": "shards", "matchLabelKeys": ["shard"], **policy}
    return state_of(
        node(cpu=10),
        queue("q"),
        group("a", "q", minMember=0, phase="Inqueue", subGroupPolicy=[given]),
        *pods,
    )


def test_sub_groups_the_cheapest_to_complete_are_what_is_missing() -> None:
    state = sub_groups("xxxyyzz", subGroupSize=2, minSubGroups=2)
    live, gang = opened(Gang, state)
    a = of(state, "a")
    assert gang.missing(a) == 4
    statement = live.statement()
    statement.allocate(tasks(state, "a-0", "a-1", "a-2"), [0, 0, 0])
    assert gang.missing(a) == 2
    statement.allocate(tasks(state, "a-3"), [0])
    assert gang.missing(a) == 1
    statement.allocate(tasks(state, "a-5", "a-6"), [0, 0])
    assert gang.missing(a) == 0


def test_too_few_sub_groups_make_the_job_invalid() -> None:
    _, gang = opened(Gang, state := sub_groups("xxy", subGroupSize=2, minSubGroups=2))
    reason = gang.valid(of(state, "a"))
    assert reason is not None and "subGroups" in reason.message()


def test_kais_sub_groups_each_need_their_minimum() -> None:
    label = "kai.scheduler/subgroup-name"
    parts = [{"name": "all", "minMember": 0}, *({"name": n, "minMember": 1, "parent": "all"} for n in ("one", "two"))]
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", minMember=2, phase="Inqueue", subGroups=parts),
        *(pod(name, "a", labels={label: part}) for name, part in (("p1", "one"), ("p2", "one"), ("p3", "two"))),
    )  # fmt: skip
    live, gang = opened(Gang, state)
    live.statement().allocate(tasks(state, "p1", "p2"), [0, 0])
    assert gang.missing(of(state, "a")) == 1


def test_jobs_below_their_minimum_go_first() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        job("ready", running=2, least=2),
        job("short", running=1, waiting=1, least=2),
    )
    _, gang = opened(Gang, state)
    assert gang.job_key(of(state, "short")) < gang.job_key(of(state, "ready"))


def test_only_what_a_job_has_above_its_minimum_may_be_taken() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        job("claims", waiting=1),
        job("a", running=4, least=2),
        job("b", running=2, least=2),
    )
    _, gang = opened(Gang, state)
    victims = tasks(state, "a-0", "b-0", "a-1", "a-2", "b-1")
    assert gang.preemptable(task(state, "claims-0"), victims) == [True, False, True, False, False]
    assert gang.reclaimable(task(state, "claims-0"), victims) == [True, False, True, False, False]


def test_starving_is_about_the_minimum_alone() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        job("a", running=2, waiting=3, least=2),
        job("b", running=1, waiting=1, least=2),
    )
    _, gang = opened(Gang, state)
    assert [gang.starving(of(state, name)) for name in "ab"] == [False, True]
