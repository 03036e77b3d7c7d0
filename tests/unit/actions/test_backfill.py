"""backfill: pods that request nothing find nodes by filters and scores alone."""

from __future__ import annotations

from typing import Any

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, of, option, placed, session, task, tasks
from muster.actions import backfill
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State


def binds(live: Session) -> dict[str, str]:
    return placed(live, MoveKind.ALLOCATE)


def run(state: State, *plugins: Any) -> Session:
    live = session(state, *plugins)
    backfill.run(live)
    return live


def free(name: str, **more: Any) -> Any:
    return pod(name, "a", requests={}, **more)


def with_a_busy_node() -> State:
    """Job `a` with one free pod; n1 is nearly full, n2 is empty."""
    nodes = node("n1", cpu=10), node("n2", cpu=10)
    return state_of(
        *nodes, queue("q"), group("a", "q", phase="Inqueue"), free("p1"), job("busy", running=8, on="n1")
    )


def test_capacity_is_not_checked_only_filters_are() -> None:
    full = (node("n1", cpu=0, pods=1), queue("q"), group("a", "q", phase="Inqueue"), free("p1"), free("p2"))
    assert binds(run(state_of(*full), "gang")) == {"p1": "n1", "p2": "n1"}
    state = state_of(*full)
    assert binds(run(state, "gang", "predicates")) == {"p1": "n1"}
    assert "pod number exceeded" in of(state, "a").attempt.unfit["default/p2"]


def test_the_better_node_is_taken() -> None:
    state = with_a_busy_node()
    assert binds(run(state, "gang", "nodeorder")) == {"p1": "n2"}


def test_pods_with_requests_gated_pods_and_groups_not_admitted_are_left_alone() -> None:
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", phase="Inqueue"), pod("asks", "a"),
        free("gated", schedulingGates=[{"name": "wait"}]),
        group("b", "q", phase="Pending"), pod("early", "b", requests={}),
        group("c", "q", minMember=3, phase="Inqueue"), pod("lone", "c", requests={}),
    )  # fmt: skip
    assert binds(run(state, "gang")) == {}


def test_the_reserved_pods_of_a_job_are_bound_once_it_is_ready() -> None:
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", minMember=2, phase="Inqueue"), pod("asks", "a"), free("p1")
    )
    live = session(state, "gang")
    statement = live.statement()
    statement.allocate(tasks(state, "asks"), [0])
    statement.keep()
    backfill.run(live)
    assert binds(live) == {"asks": "n1", "p1": "n1"}
    assert live.reserved == []


def test_a_job_that_is_not_ready_binds_nothing() -> None:
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", minMember=2, phase="Inqueue"), pod("asks", "a"), free("p1")
    )
    live = run(state, "gang")
    assert binds(live) == {}
    assert [t.name for m in live.reserved for t in m.tasks] == ["p1"]


def test_promised_pods_that_ask_for_nothing_are_taken_back_first() -> None:
    state = with_a_busy_node()
    live = session(state, "gang", "nodeorder")
    statement = live.statement()
    statement.pipeline([task(state, "p1")], [0])
    statement.commit()
    backfill.run(live)
    assert binds(live) == {"p1": "n2"}
    assert [m.kind for m in live.committed] == [MoveKind.ALLOCATE]


def test_closing_takes_everything_back() -> None:
    state = state_of(node(cpu=10), queue("q"), group("a", "q", phase="Inqueue"), free("p1"))
    before = state.nodes.rows.copy()
    live = run(state, "gang", option("predicates"))
    assert (state.nodes.rows != before).any()
    live.close()
    assert (state.nodes.rows == before).all()


def test_a_node_whose_evicted_pods_are_still_terminating_is_full() -> None:
    state = state_of(
        node("n1", cpu=10, pods=1),
        queue("q"),
        job("old", running=1, least=0),
        job("a", waiting=1, asks={}, least=0),
    )
    live = session(state, "gang", "predicates")
    statement = live.statement()
    statement.evict(state.tasks["default/old-0"], None, "preempt")
    statement.commit()
    backfill.run(live)
    assert binds(live) == {}
