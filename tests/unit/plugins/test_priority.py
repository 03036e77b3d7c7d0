"""priority: who goes first, and who may evict whom inside a queue."""

from __future__ import annotations

from builders.manifests import group, node, pod, priority_class, queue, state_of
from builders.queued_jobs import job, of, opened, session, task, tasks
from muster.plugins.priority import Priority


def test_tasks_of_higher_priority_go_first_and_no_priority_is_one() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        group("a", "q", phase="Inqueue"),
        pod("a-1", "a"),
        pod("a-2", "a", priority=5),
        pod("a-3", "a", priority=0),
    )
    ordered = session(state, "priority").in_order(state.tasks.values())
    assert [t.name for t in ordered] == ["a-2", "a-1", "a-3"]


def test_a_job_has_the_priority_of_its_group_not_of_its_pods() -> None:
    state = state_of(
        node(cpu=10), queue("q"), priority_class("high", 100),
        job("a", priorityClassName="high"), group("b", "q", phase="Inqueue"), pod("b-1", "b", priority=1000),
    )  # fmt: skip
    _, plugin = opened(Priority, state)
    assert plugin.job_key(of(state, "a")) < plugin.job_key(of(state, "b"))


def test_victims_are_of_jobs_of_strictly_lower_priority() -> None:
    state = state_of(
        node(cpu=10), queue("q"), priority_class("high", 100), priority_class("low", 10),
        job("claims", waiting=1, priorityClassName="high"), job("low", running=1, priorityClassName="low"),
        job("same", running=1, priorityClassName="high"),
    )  # fmt: skip
    _, plugin = opened(Priority, state)
    assert plugin.preemptable(task(state, "claims-0"), tasks(state, "low-0", "same-0")) == [True, False]


def test_inside_a_job_victims_are_pods_of_strictly_lower_priority() -> None:
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", phase="Inqueue"),
        pod("new", "a", priority=5), pod("less", "a", "n1", priority=4), pod("same", "a", "n1", priority=5),
    )  # fmt: skip
    _, plugin = opened(Priority, state)
    assert plugin.preemptable(task(state, "new"), tasks(state, "less", "same")) == [True, False]


def test_a_job_starves_while_any_of_its_pods_waits() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", running=1, waiting=1), job("b", running=2))
    _, plugin = opened(Priority, state)
    assert [plugin.starving(of(state, name)) for name in "ab"] == [True, False]
