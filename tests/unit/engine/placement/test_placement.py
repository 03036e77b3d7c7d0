"""Placement: which node a task gets, runs of equal tasks, promised nodes, and the questions without placing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, of, task, tasks
from fakes.plugins import Refuse, Score, ShareOfBest, real, session_of, stub
from muster.engine.core.hooks import Batch, NodeFilter, NodeSet, Plugin, Reason, Scope, Verdict
from muster.engine.core.jobs import Status
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State


def cluster(*cpus: int, waiting: int = 4, running: int = 0) -> State:
    """Nodes n0, n1 … with so many cores; job `a` waits with pods of one core; `old` runs on n0."""
    nodes = [node(f"n{i}", cpu=cpu) for i, cpu in enumerate(cpus)]
    return state_of(*nodes, queue("q"), job("a", waiting=waiting), job("old", running=running, on="n0", least=0))


def place(session: Session, count: int, within: NodeSet | None = None) -> list[int]:
    """The nodes of the first `count` pods of job a, placed as one run."""
    run = list(of(session.state, "a").tasks.values())[:count]
    statement = session.statement()
    done = session.placement.place(statement, run, within)
    found = [one.node for one in run[:done]]
    assert all(one.node == -1 for one in run[done:])
    statement.discard()
    return found


def one_by_one(session: Session, count: int) -> list[int]:
    statement = session.statement()
    run = list(of(session.state, "a").tasks.values())[:count]
    for one in run:
        session.placement.place(statement, [one])
    found = [one.node for one in run if one.node >= 0]
    statement.discard()
    return found


def mask(values: object) -> list[bool]:
    return np.asarray(values).tolist()


# --- placing


def test_the_best_node_that_fits_is_taken_and_ties_go_to_the_first_name() -> None:
    assert place(session_of(cluster(1, 1, 1), Score([1, 5, 3])), 4) == [1, 2, 0]
    assert place(session_of(cluster(1, 0, 1), Score([5, 9, 5])), 4) == [0, 2]
    assert place(session_of(cluster(2, 2), Score([4, 4])), 3) == [0, 0, 1]


def test_scores_are_those_of_the_columns_after_each_pod_of_the_run() -> None:
    spread = session_of(cluster(3, 3), Score(lambda idle: idle))
    assert place(spread, 4) == one_by_one(spread, 4) == [0, 1, 0, 1]
    packed = session_of(cluster(3, 4), Score(lambda idle: -idle))
    assert place(packed, 4) == one_by_one(packed, 4) == [0, 0, 0, 1]


def test_nodes_that_a_filter_refuses_are_left_out() -> None:
    assert place(session_of(cluster(4, 4), Refuse(0)), 2) == [1, 1]
    assert place(session_of(cluster(4, 4), Refuse(0, scope=Scope.STATIC)), 2) == [1, 1]
    assert place(session_of(cluster(4, 4), Refuse(0, scope=Scope.CLUSTER)), 2) == [1, 1]
    assert place(session_of(cluster(4, 4), Refuse(0, 1)), 2) == []


def once_per_node() -> Plugin:
    """As a host port: at most one of these pods per node, whatever the columns say."""
    return stub(
        "once", NodeFilter, batch=Batch.ONCE, filter=lambda task, view: Verdict(np.zeros(len(view), np.uint16), [])
    )


def test_pods_that_exclude_each_other_get_one_node_each() -> None:
    assert place(session_of(cluster(4, 4), once_per_node()), 2) == [0, 1]


def test_a_run_is_cut_where_its_pods_ask_about_each_other() -> None:
    asked: list[int] = []

    def only_empty_nodes(task: object, view: object) -> Verdict:
        asked.append(1)
        return Verdict.of(np.asarray(view.load[view.nodes.axis.rows["cpu"]] > 0), Reason("r", "r"))  # type: ignore[attr-defined]

    single = stub("single", NodeFilter, batch=Batch.SINGLE, filter=only_empty_nodes)
    assert place(session_of(cluster(4, 4, 4), single), 4) == [0, 1, 2]


def test_what_normalised_scores_say_changes_when_a_node_is_full() -> None:
    """The best of the candidates counts 100, the worst 0.

    While n0 is a candidate, n1 has 80 and n2, with 90 points of its own, is better. Once n0 is full, n1 has 100.
    """
    state = cluster(1, 4, 4)
    session = session_of(state, [ShareOfBest([10, 8, 0]), Score([0, 0, 90])])
    assert one_by_one(session, 2) == [0, 1]
    assert place(session, 2) == [0, 1], "the run goes on with the constants of a candidate that is gone"
    assert place(session, 4) == one_by_one(session, 4)


def test_normalised_scores_of_a_set_are_those_of_its_nodes() -> None:
    session = session_of(cluster(4, 4, 4), [ShareOfBest([10, 8, 0]), Score([0, 0, 90])])
    assert place(session, 1, NodeSet(np.array([1, 2]))) == [1]
    assert place(session, 1, NodeSet(np.array([0, 1, 2]))) == [0]


def test_a_set_limits_the_nodes_and_adds_its_own_scores() -> None:
    session = session_of(cluster(2, 2, 2), Score([9, 5, 4]))
    assert place(session, 4, NodeSet(np.array([1, 2]))) == [1, 1, 2, 2]
    assert place(session, 4, NodeSet(np.array([1, 2]), score=np.array([0.0, 3.0]))) == [2, 2, 1, 1]


def test_what_is_being_released_is_only_promised_and_only_after_what_is_free() -> None:
    state = cluster(2, 1, running=2)
    session = session_of(state, real("gang"))
    session.statement().evict(task(state, "old-0"), None, "preempt")
    run = tasks(state, "a-0", "a-1", "a-2")
    assert session.placement.place(session.statement(), run) == 2
    assert [(t.status, t.node) for t in run[:2]] == [(Status.ALLOCATED, 1), (Status.PIPELINED, 0)]


def test_on_a_set_only_its_own_releases_count() -> None:
    state = cluster(2, 0, running=2)
    session = session_of(state, real("gang"))
    session.statement().evict(task(state, "old-0"), None, "preempt")
    assert place(session, 1, NodeSet(np.array([1]))) == []
    assert place(session, 1, NodeSet(np.array([0]))) == [0]


def test_a_promise_uses_free_capacity_without_binding_it() -> None:
    state = cluster(1, 1)
    session = session_of(state, real("gang"))
    run = tasks(state, "a-0", "a-1", "a-2")
    assert session.placement.promise(session.statement(), run) == 2
    assert [t.status for t in run] == [Status.PIPELINED, Status.PIPELINED, Status.PENDING]


def nominated(*nodes: str, cpus: Sequence[int] = (4, 4, 4)) -> tuple[Session, State]:
    """Pods a-0, a-1 … with these nominations, and a score that prefers n0."""
    state = cluster(*cpus)
    for one, name in zip(of(state, "a").tasks.values(), nodes, strict=False):
        one.nominated = name
    return session_of(state, Score([9, 5, 1]), compatibility="volcano"), state


def test_a_nominated_node_is_tried_first() -> None:
    session, state = nominated("n2", "n2", "n2")
    assert place(session, 3) == [2, 2, 2]
    assert task(state, "a-0").nominated == "n2", "the nomination stays"


def test_where_the_nominated_node_does_not_do_any_other_is_taken() -> None:
    assert place(nominated("n2", cpus=(4, 4, 0))[0], 1) == [0]
    assert place(nominated("gone")[0], 1) == [0]


def test_a_nomination_outside_the_set_does_not_count() -> None:
    assert place(nominated("n2")[0], 1, NodeSet(np.array([0, 1]))) == [0]
    assert place(nominated("n1")[0], 1, NodeSet(np.array([0, 1]))) == [1]


def test_nominated_pods_end_at_the_first_that_finds_nothing() -> None:
    assert place(nominated("n0", "n0", "n0", cpus=(1, 1, 0))[0], 3) == [0, 1]


# --- the cache


def test_answers_are_kept_per_signature_and_follow_what_happens() -> None:
    state = cluster(1, 1)
    session = session_of(state, Score([2, 1]))
    a0, a1 = tasks(state, "a-0", "a-1")
    answers = session.placement.answers(a0)
    assert session.placement.answers(a1) is answers
    assert mask(session.placement.fits(a1)) == [True, True]
    session.statement().allocate([a0], [0])
    assert mask(session.placement.fits(a1)) == [False, True]
    session.placement.caching = False
    assert session.placement.answers(a1) is not answers


def test_the_cache_forgets_what_was_not_asked_for_longest() -> None:
    pods = [pod(f"p{i}", "g", requests={"cpu": f"{i + 1}m"}) for i in range(3)]
    state = state_of(node("n0", cpu=10), queue("q"), group("g", "q", phase="Inqueue"), *pods)
    session = session_of(state, real("gang"))
    session.placement._most = 2
    p0, p1, p2 = tasks(state, "p0", "p1", "p2")
    first, second = session.placement.answers(p0), session.placement.answers(p1)
    session.placement.answers(p0)
    session.placement.answers(p2)
    assert session.placement.answers(p0) is first
    assert session.placement.answers(p1) is not second


# --- questions without placing


def evicting(resolvable: bool, scope: Scope) -> tuple[Session, State]:
    state = cluster(2, 2, 2)
    return session_of(state, [Refuse(1, resolvable=resolvable, scope=scope), Score([3, 2, 1])]), state


@pytest.mark.parametrize("scope", [Scope.STATIC, Scope.NODE, Scope.CLUSTER])
@pytest.mark.parametrize("resolvable", [True, False])
def test_evictions_cure_what_the_reason_calls_resolvable(resolvable: bool, scope: Scope) -> None:
    session, state = evicting(resolvable, scope)
    waits = task(state, "a-0")
    assert mask(session.placement.might_fit(waits)) == [True, resolvable, True]
    assert [session.placement.curable(waits, i) for i in range(3)] == [True, resolvable, True]
    assert [session.placement.passes(waits, i) for i in range(3)] == [True, False, True]
    assert [session.placement.accepts(waits, i, MoveKind.ALLOCATE) for i in range(3)] == [True, False, True]
    assert [session.placement.may_hold(waits, i) for i in range(3)] == [True, scope != Scope.STATIC, True]


def test_a_node_fits_later_with_what_is_released_and_with_what_victims_would_free() -> None:
    state = cluster(2, 0, running=2)
    session = session_of(state, real("gang"))
    placement, waits = session.placement, task(state, "a-0")
    victims = tasks(state, "old-0", "old-1")
    assert not placement.fits_future(waits, 0) and placement.fits_future(waits, 0, victims[:1])
    assert not placement.fits_future(waits, 1, ())
    session.statement().evict(victims[0], None, "preempt")
    assert placement.fits_future(waits, 0)
    assert mask(placement.fits(waits)) == [False, False]
    assert mask(placement.fits(waits, MoveKind.PIPELINE)) == [True, False]
    assert placement.accepts(waits, 0, MoveKind.PIPELINE) and not placement.accepts(waits, 0, MoveKind.ALLOCATE)


def test_a_node_whose_idle_capacity_is_promised_does_not_accept_a_pod_at_once() -> None:
    state = cluster(1)
    session = session_of(state, real("gang"))
    session.statement().pipeline(tasks(state, "a-0"), [0])
    assert not session.placement.accepts(task(state, "a-1"), 0, MoveKind.ALLOCATE)
    assert mask(session.placement.fits(task(state, "a-1"))) == [False]


def test_scores_of_a_claim_take_constants_over_the_nodes_that_evictions_could_make_fit() -> None:
    state = cluster(0, 4, 4)
    plugins = [ShareOfBest([10, 8, 0]), Score([1, 1, 1])]
    waits = task(state, "a-0")
    assert session_of(state, plugins).placement.scores(waits).tolist() == [101.0, 81.0, 1.0]
    never = [*plugins, Refuse(0, resolvable=False)]
    state = cluster(0, 4, 4)
    assert session_of(state, never).placement.scores(task(state, "a-0")).tolist()[1:] == [101.0, 1.0]
    state = cluster(0, 4)
    assert session_of(state, Score([3, 2])).placement.scores(task(state, "a-0")).tolist() == [3.0, 2.0]


def test_kept_answers_follow_a_resource_that_gets_its_row_within_the_cycle() -> None:
    zero = pod("zero", cpu=1, requests={"example.com/rare": 0})
    state = state_of(node("n0", cpu=4), node("n1", cpu=2), queue("q"), job("a", waiting=4), zero)
    session = session_of(state, [real("predicates"), real("nodeorder"), real("binpack")])
    waits, before = task(state, "a-2"), state.nodes.axis.size
    for number, one in enumerate((*tasks(state, "a-0", "a-1"), state.tasks["default/zero"])):
        session.placement.answers(waits).key(MoveKind.ALLOCATE)
        session.statement().allocate([one], [number % 2])
    assert state.nodes.axis.size > before
    kept = session.placement.answers(waits).key(MoveKind.ALLOCATE).tolist()
    session.placement.caching = False
    assert kept == session.placement.answers(waits).key(MoveKind.ALLOCATE).tolist()
