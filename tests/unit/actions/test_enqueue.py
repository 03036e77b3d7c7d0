"""enqueue: which groups are admitted, and why the others are not."""

from __future__ import annotations

from typing import Any

from builders.manifests import node, queue, state_of
from builders.queued_jobs import job, of, option, session
from muster.actions import enqueue
from muster.engine.core.state import State


def phases(state: State, *plugins: Any) -> dict[str, str]:
    enqueue.run(session(state, *plugins))
    return {j.name: j.phase for j in state.jobs.values()}


def waits(name: str, cpu: int | None, into: str = "q", **more: Any) -> Any:
    minimum = {} if cpu is None else {"cpu": cpu}
    return job(name, into, waiting=1, phase="Pending", minResources=minimum, **more)


def test_a_refused_group_does_not_hold_up_those_behind_it() -> None:
    state = state_of(node(cpu=10), queue("q"), waits("a", 6), waits("b", 6), waits("c", 4))
    assert phases(state, "proportion") == {"a": "Inqueue", "b": "Pending", "c": "Inqueue"}
    reason = of(state, "b").attempt.refusal
    assert reason is not None
    assert reason.message() == (
        "plugin proportion does not admit the group: "
        "queue q: cpu requested 6 + allocated 0 + inqueue 6 > 10, all that the cluster has"
    )


def test_a_group_without_minimum_resources_is_not_asked_about() -> None:
    state = state_of(node(cpu=1), queue("q"), waits("a", None), waits("b", 5))
    assert phases(state, "overcommit") == {"a": "Inqueue", "b": "Pending"}


def test_queues_and_jobs_are_taken_in_order() -> None:
    state = state_of(
        node(cpu=10), queue("late"), queue("first", priority=1),
        waits("a", 6, "late"), waits("b", 6, "first", created="2024-01-02T00:00:00Z"),
        waits("c", 6, "first", created="2024-01-01T00:00:00Z"),
    )  # fmt: skip
    found = phases(state, option("overcommit", {"overcommit-factor": 1}), "proportion")
    assert found == {"a": "Pending", "b": "Pending", "c": "Inqueue"}


def test_groups_that_are_past_pending_are_left_alone() -> None:
    state = state_of(
        node(cpu=10), queue("q"), job("a", running=1, phase="Running"), job("b", waiting=1, phase="Inqueue")
    )
    assert phases(state, "proportion") == {"a": "Running", "b": "Inqueue"}


def test_without_plugins_everything_is_admitted() -> None:
    assert phases(state_of(node(cpu=10), queue("q"), waits("a", 1000))) == {"a": "Inqueue"}
