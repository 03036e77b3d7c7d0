"""allocate: queues and jobs in order, gangs all or nothing, surplus pods one at a time, reasons for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, of, task
from fakes.plugins import Refuse, real, session_of, stub
from muster.actions import allocate
from muster.actions.allocate import equal_run, may_continue, run_of
from muster.engine.core.hooks import JobOrder, JobValid, Overused, Plugin, QueueOrder, QueueQuota, Reason
from muster.engine.core.jobs import Status
from muster.engine.core.session import Session
from muster.engine.core.state import State

ROLE = "volcano.sh/task-spec"
ALONE = ("allocate",)


def run(state: State, *plugins: Plugin, **more: Any) -> Session:
    session = session_of(state, [real("gang"), *plugins], **{"actions": ALONE, **more})
    allocate.run(session)
    return session


def bound(session: Session) -> list[str]:
    """The pods that will be bound, in the order they were placed."""
    return [t.name for move in session.committed for t in move.tasks]


# --- which pods are tried


def test_a_group_that_is_not_admitted_waits_only_if_something_admits() -> None:
    def state() -> State:
        return state_of(node(cpu=10), queue("q"), job("a", waiting=1, phase="Pending"))

    assert bound(run(state(), actions=("enqueue", "allocate"))) == []
    assert bound(run(state())) == ["a-0"]


def test_pods_that_ask_for_nothing_and_gated_pods_are_left_alone() -> None:
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", minMember=0, phase="Inqueue"), pod("a-0", "a", requests={}),
        pod("a-1", "a"),
        pod("a-2", "a", schedulingGates=[{"name": "wait"}]),
    )  # fmt: skip
    assert bound(run(state)) == ["a-1"]


def test_an_invalid_job_is_left_out_with_its_reason() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=1), job("b", waiting=1))
    reason = Reason("invalid", "not valid")
    session = run(state, stub("valid", JobValid, valid=lambda job: reason if job.name == "a" else None))
    assert bound(session) == ["b-0"] and of(state, "a").attempt.refusal is reason


# --- gangs


def test_a_gang_gets_its_minimum_or_nothing() -> None:
    assert bound(run(state_of(node(cpu=3), queue("q"), job("a", waiting=3, least=3)))) == ["a-0", "a-1", "a-2"]
    state = state_of(node(cpu=2), queue("q"), job("a", waiting=3, least=3))
    session = run(state)
    assert bound(session) == [] and session.reserved == []
    assert all(t.node == -1 and t.status == Status.PENDING for t in of(state, "a").tasks.values())
    assert of(state, "a").attempt.would_fit == {"default/a-0": 0, "default/a-1": 0}


def test_what_a_failed_gang_gives_back_goes_to_the_next_job() -> None:
    state = state_of(node(cpu=2), queue("q"), job("a", waiting=3, least=3), job("b", waiting=2, least=2))
    assert bound(run(state)) == ["b-0", "b-1"]


def test_a_gang_that_waits_for_releases_keeps_what_it_reserved() -> None:
    state = state_of(
        node(cpu=2), queue("q"), job("old", running=1, least=0), job("a", waiting=2, least=2), job("b", waiting=1)
    )
    session = session_of(state, real("gang"), actions=ALONE)
    statement = session.statement()
    statement.evict(task(state, "old-0"), None, "preempt")
    statement.commit()
    allocate.run(session)
    assert [t.name for move in session.reserved for t in move.tasks] == ["a-0", "a-1"]
    assert task(state, "b-0").node == -1


def test_above_the_minimum_jobs_take_turns_pod_by_pod() -> None:
    state = state_of(node(cpu=5), queue("q"), job("a", waiting=4, least=2), job("b", waiting=4, least=1))
    fewest = stub("fewest", JobOrder, job_key=lambda job: float(job.ready))
    assert bound(run(state, fewest)) == ["a-0", "a-1", "b-0", "b-1", "a-2"]


def test_a_surplus_pod_that_fits_nowhere_leaves_the_rest_bound() -> None:
    state = state_of(
        node(cpu=4),
        queue("q"),
        group("a", "q", phase="Inqueue"),
        pod("a-0", "a"),
        pod("a-1", "a", requests={"cpu": 8}),
        pod("a-2", "a"),
    )
    assert bound(run(state)) == ["a-0", "a-2"]
    assert set(of(state, "a").attempt.unfit) == {"default/a-1"}


# --- queues


def test_the_first_queue_in_queue_order_is_served_first() -> None:
    def state() -> State:
        return state_of(node(cpu=1), queue("q"), queue("r"), job("a", waiting=1), job("b", queue="r", waiting=1))

    backwards = stub("backwards", QueueOrder, queue_cmp=lambda a, b: -1 if a.name > b.name else 1)
    assert bound(run(state())) == ["a-0"] and bound(run(state(), backwards)) == ["b-0"]


def test_an_overused_queue_gets_nothing_and_its_jobs_the_reason() -> None:
    state = state_of(node(cpu=10), queue("q"), queue("r"), job("a", waiting=1), job("b", queue="r", waiting=1))
    reason = Reason("overused", "overused")
    session = run(state, stub("over", Overused, overused=lambda queue: reason if queue.name == "q" else None))
    assert bound(session) == ["b-0"] and of(state, "a").attempt.refusal is reason


def quota(most: int, cpu: int = 1000) -> Plugin:
    """Admits so many pods of this size to a queue, and any number of others."""

    def admits(queue: Any, task: Any, count: int) -> int:
        if task.shape.amounts["cpu"] != cpu:
            return count
        held = sum(t.node >= 0 for j in queue.jobs.values() for t in j.tasks.values())
        return min(count, most - held)

    return stub("quota", QueueQuota, admits=admits, quota_refusal=Reason("quota", "the queue is full"))


def test_pods_beyond_the_quota_are_passed_over_with_the_reason_and_smaller_pods_are_tried() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        group("a", "q", phase="Inqueue"),
        *(pod(f"a-{i}", "a") for i in range(3)),
        pod("a-3", "a", requests={"cpu": "1m"}),
    )
    assert bound(run(state, quota(2))) == ["a-0", "a-1", "a-3"]
    attempt = of(state, "a").attempt
    assert attempt.unfit == {"default/a-2": "the queue is full"} and attempt.over_quota == {"default/a-2"}


def test_a_gang_that_the_quota_cuts_short_gets_nothing() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=3, least=3))
    assert bound(run(state, quota(2))) == []
    assert of(state, "a").attempt.over_quota == {"default/a-2"}


def test_in_a_fifo_queue_no_job_passes_the_first_job_that_waits() -> None:
    def state(**spec: Any) -> State:
        return state_of(node(cpu=2), queue("q", **spec), job("a", waiting=3, least=3), job("b", waiting=1))

    assert bound(run(state())) == ["b-0"]
    strict = state(dequeueStrategy="fifo")
    assert bound(run(strict)) == []
    refusal = of(strict, "b").attempt.refusal
    assert refusal is not None and refusal.code == "queue-fifo"


# --- reasons and roles


def test_equal_pods_that_fit_nowhere_share_a_reason() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=3, least=1))
    assert bound(run(state, Refuse(0))) == []
    assert set(of(state, "a").attempt.unfit) == {"default/a-0", "default/a-1", "default/a-2"}
    assert "refused by the test" in of(state, "a").attempt.unfit["default/a-0"]


def roles(*members: tuple[str, int], least: int, cpu: int = 4, **spec: Any) -> State:
    """Pods a-0 … of these roles and cores on a node of 4."""
    pods = [
        pod(f"a-{i}", "a", annotations={ROLE: role}, requests={"cpu": size}) for i, (role, size) in enumerate(members)
    ]
    return state_of(node(cpu=cpu), queue("q"), group("a", "q", minMember=least, phase="Inqueue", **spec), *pods)


@pytest.mark.parametrize(("actions", "placed"), [(("allocate",), ["a-1"]), (("allocate", "preempt"), ["a-1", "a-2"])])
def test_other_pods_of_a_role_that_failed_are_tried_only_if_evictions_follow(
    actions: tuple[str, ...], placed: list[str]
) -> None:
    state = roles(("w", 8), ("m", 1), ("w", 1), least=1)
    assert bound(run(state, actions=actions)) == placed


@pytest.mark.parametrize(
    ("state", "failed", "goes_on"),
    [
        (roles(("w", 1), ("w", 1), least=2), {"w"}, False),  # all are needed
        (roles(("w", 1), ("m", 1), ("m", 1), least=2, minTaskMember={"w": 2, "m": 1}), {"w"}, True),
        (roles(("w", 1), ("m", 1), ("w", 1), least=2, minTaskMember={"w": 2, "m": 1}), {"w"}, False),
        (roles(("w", 1), ("m", 1), ("m", 1), least=2), {"w"}, True),  # no role has a minimum
        (roles(("w", 1), ("m", 1), ("m", 1), least=2, minTaskMember={"w": 1, "m": 1}), {"w"}, False),
        (roles(("w", 0), ("m", 1), ("m", 1), least=2, minTaskMember={"w": 1, "m": 1}), {"w"}, True),
        (roles(("w", 1), ("m", 1), ("m", 1), least=2, minTaskMember={"m": 1}), {"w"}, True),
    ],
)  # fmt: skip
def test_a_job_goes_on_while_it_can_reach_its_minimum_without_a_failed_role(
    state: State, failed: set[str], goes_on: bool
) -> None:
    assert may_continue(of(state, "a"), failed) is goes_on


def test_runs_are_of_one_signature_and_role_and_none_is_promised_a_node() -> None:
    state = roles(("w", 1), ("w", 1), ("m", 1), ("m", 2), ("m", 2), ("m", 2), least=1)
    session = session_of(state, real("gang"))
    found = list(of(state, "a").tasks.values())
    assert [t.name for t in run_of(session, found, 0, 5)] == ["a-0", "a-1"]
    assert [t.name for t in run_of(session, found, 0, 1)] == ["a-0"]
    assert [t.name for t in equal_run(session, found, 2)] == ["a-2"]
    assert [t.name for t in equal_run(session, found, 3)] == ["a-3", "a-4", "a-5"]
    found[4].nominated = "n1"
    assert [t.name for t in equal_run(session, found, 3)] == ["a-3"]
    assert [t.name for t in equal_run(session, found, 4)] == ["a-4"]
