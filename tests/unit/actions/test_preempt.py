"""preempt: who evicts whom inside a queue, by muster's rules and by Volcano's."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, priority_class, queue, state_of
from builders.queued_jobs import evicted, placed, task
from fakes.plugins import Refuse, Score, real, session_of
from muster.actions import preempt
from muster.config.types import Arguments
from muster.engine.core.hooks import Plugin
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State

VOLCANO = {"compatibility": "volcano"}
BOTH = pytest.mark.parametrize("compatibility", ["", "volcano"])


def job(name: str, priority: int, running: int = 0, waiting: int = 0, on: str = "n1", cpu: int = 1, **more: Any) -> Any:
    """A group of a priority with pods of the same: the running ones first."""
    queue_name, of_pod = more.pop("queue", "q"), more.pop("of_pod", {})
    more.setdefault("phase", "Running" if running else "Inqueue")
    pods = [
        pod(f"{name}-{i}", name, on if i < running else "", requests={"cpu": cpu}, priority=priority, **of_pod)
        for i in range(running + waiting)
    ]
    least = more.pop("least", 1)
    return [group(name, queue_name, minMember=least, priorityClassName=f"p{priority}", **more), *pods]


def cluster(*objects: Any, nodes: int = 1, cpu: int = 2) -> State:
    classes = [priority_class(f"p{n}", n) for n in (1, 5, 9)]
    made_nodes = [node(f"n{i + 1}", cpu=cpu) for i in range(nodes)]
    return state_of(*made_nodes, queue("q"), queue("r"), *classes, *objects)


def run(state: State, *plugins: Plugin, actions: tuple[str, ...] = ("allocate", "preempt"), **more: Any) -> Session:
    session = session_of(state, [real("priority"), real("gang"), real("predicates"), *plugins], actions=actions, **more)
    preempt.run(session)
    return session


def promised(session: Session) -> dict[str, str]:
    return placed(session, MoveKind.PIPELINE)


@BOTH
def test_a_job_takes_what_it_needs_from_jobs_of_lower_priority_and_no_more(compatibility: str) -> None:
    session = run(cluster(job("low", 1, running=2, least=0), job("boss", 9, waiting=1)), compatibility=compatibility)
    assert evicted(session) in (["low-0"], ["low-1"]) and promised(session) == {"boss-0": "n1"}
    assert {move.rule for move in session.committed if move.kind == MoveKind.EVICT} == {"preempt"}
    assert {move.by for move in session.committed if move.kind == MoveKind.EVICT} == {task(session.state, "boss-0")}


@BOTH
def test_no_pod_of_equal_or_higher_priority_is_evicted(compatibility: str) -> None:
    for priority in (5, 9):
        state = cluster(job("busy", priority, running=2, least=0), job("boss", 5, waiting=1))
        assert evicted(run(state, compatibility=compatibility)) == []


@BOTH
def test_pods_of_other_queues_are_not_preempted(compatibility: str) -> None:
    state = cluster(job("low", 1, running=2, least=0, queue="r"), job("boss", 9, waiting=1))
    assert evicted(run(state, compatibility=compatibility)) == []


@BOTH
def test_a_gang_evicts_for_its_whole_minimum_or_not_at_all(compatibility: str) -> None:
    low = job("low", 1, running=2, least=0)
    assert evicted(run(cluster(low, job("boss", 9, waiting=2, least=2)), compatibility=compatibility)) == [
        "low-0", "low-1"
    ]  # fmt: skip
    session = run(cluster(low, job("boss", 9, waiting=3, least=3)), compatibility=compatibility)
    assert session.committed == [] and session.reserved == []


@BOTH
def test_a_pod_whose_policy_is_never_evicts_no_pod(compatibility: str) -> None:
    boss = job("boss", 9, waiting=1, of_pod={"preemptionPolicy": "Never"})
    assert evicted(run(cluster(job("low", 1, running=2, least=0), boss), compatibility=compatibility)) == []


@BOTH
def test_evictions_on_a_node_that_a_filter_refuses_permanently_are_useless(compatibility: str) -> None:
    def state() -> State:
        return cluster(job("low", 1, running=2, least=0), job("boss", 9, waiting=1))

    assert evicted(run(state(), Refuse(0, resolvable=False), compatibility=compatibility)) == []


def test_a_group_that_is_not_admitted_evicts_no_pod() -> None:
    state = cluster(job("low", 1, running=2, least=0), job("boss", 9, waiting=1, phase="Pending"))
    for rules in ("", "volcano"):
        session = run(state, actions=("enqueue", "allocate", "preempt"), compatibility=rules)
        assert evicted(session) == []
        session.close()


def test_what_a_later_reclaim_can_serve_is_left_to_it() -> None:
    def state() -> State:
        return cluster(
            job("low", 1, running=1, least=0), job("other", 1, running=1, least=0, queue="r"), job("boss", 9, waiting=1)
        )

    plugins = [real("proportion")]
    assert evicted(run(state(), *plugins, actions=("allocate", "preempt"))) == ["low-0"]
    assert evicted(run(state(), *plugins, actions=("allocate", "reclaim", "preempt"))) == ["low-0"]
    both = world_of_two_queues()
    assert evicted(run(both, *plugins, actions=("allocate", "preempt", "reclaim"))) == []
    assert evicted(run(world_of_two_queues(), *plugins, actions=("allocate", "reclaim", "preempt"))) == ["low-0"]


def world_of_two_queues() -> State:
    """Queue r has three of four cores, so that q may reclaim one; its own job of low priority has the fourth."""
    return cluster(
        job("low", 1, running=1, least=0),
        job("other", 1, running=3, least=0, queue="r"),
        job("boss", 9, waiting=1),
        cpu=4,
    )


def test_within_a_job_a_waiting_pod_replaces_a_running_one_of_lower_priority() -> None:
    pods = [pod("a-0", "a", "n1", requests={"cpu": 2}, priority=1), pod("a-1", "a", requests={"cpu": 2}, priority=9)]
    session = run(cluster(group("a", "q", minMember=0, phase="Running", priorityClassName="p5"), *pods))
    assert evicted(session) == ["a-0"] and promised(session) == {"a-1": "n1"}


# --- Volcano's rules


def test_by_volcano_the_node_with_the_best_score_is_used_also_without_victims() -> None:
    state = cluster(job("low", 1, running=2, least=0), job("boss", 9, waiting=1), nodes=2)
    session = run(state, Score([0, 1]), **VOLCANO)
    assert evicted(session) == [] and promised(session) == {"boss-0": "n2"}
    state = cluster(job("low", 1, running=2, least=0), job("boss", 9, waiting=1), nodes=2)
    assert promised(run(state, Score([1, 0]), **VOLCANO)) == {"boss-0": "n1"}


def test_by_volcano_a_pod_whose_promised_node_is_being_freed_waits_for_it() -> None:
    state = cluster(job("low", 1, running=2, least=0), job("boss", 9, waiting=1))
    session = session_of(state, [real("priority"), real("gang")], **VOLCANO)
    boss, low = task(state, "boss-0"), task(state, "low-0")
    assert preempt.may_preempt(session, boss)
    boss.nominated = "n1"
    assert preempt.may_preempt(session, boss), "nobody is terminating"
    session.statement().evict(low, boss, "preempt")
    assert not preempt.may_preempt(session, boss)
    low.priority = 9
    assert preempt.may_preempt(session, boss), "only pods of lower priority leave for it"
    boss.nominated = "gone"
    assert preempt.may_preempt(session, boss)


def test_by_volcano_compared_by_node_the_victims_of_least_priority_go() -> None:
    by_node = {"preempt": Arguments({"enableTopologyAwarePreemption": True})}
    state = cluster(
        job("middle", 5, running=2, least=0, on="n1"), job("low", 1, running=2, least=0, on="n2"),
        job("boss", 9, waiting=1, cpu=2), nodes=2,
    )  # fmt: skip
    session = run(state, configurations=by_node, **VOLCANO)
    assert evicted(session) == ["low-0", "low-1"] and promised(session) == {"boss-0": "n2"}
    state = cluster(
        job("two", 1, running=2, least=0, on="n1"), job("one", 1, running=1, least=0, on="n2", cpu=2),
        job("boss", 9, waiting=1, cpu=2), nodes=2,
    )  # fmt: skip
    assert evicted(run(state, configurations=by_node, **VOLCANO)) == ["one-0"]


def test_the_pods_of_a_whole_job_are_evicted_in_the_order_of_their_names_whatever_the_order_of_the_input() -> None:
    low, high = job("low", 1, running=3, least=3), job("high", 9, waiting=1)
    for pods in (low, low[::-1]):
        session = run(cluster(*pods, *high, cpu=3))
        gone = [move.task.name for move in session.committed if move.kind == MoveKind.EVICT]
        assert gone == ["low-0", "low-1", "low-2"]
