"""Statements: a move changes columns, tasks, jobs and ledgers together, and undoing it restores all of them."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import node, queue, state_of
from builders.queued_jobs import job, of, task, tasks
from fakes.plugins import Journal, real, session_of
from muster.engine.core.jobs import Status
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State


def cluster() -> State:
    """Two nodes of 4 cpu; `old` has two pods on n1, `a` three that wait, `b` two."""
    return state_of(
        node("n1", cpu=4), node("n2", cpu=4), queue("q"),
        job("old", running=2, least=0), job("a", waiting=3), job("b", waiting=2),
    )  # fmt: skip


def opened(state: State) -> tuple[Session, Journal]:
    journal = Journal()
    return session_of(state, [real("gang"), journal]), journal


def picture(state: State) -> dict[str, Any]:
    return {
        "rows": state.nodes.rows.tobytes(),
        "promised": state.nodes.pipelined,
        "releasing": state.nodes.releasing.tolist(),
        "tasks": {key: (found.status, found.node) for key, found in state.tasks.items()},
        "jobs": {
            key: (list(found.count), found.ready, _positive(found.allocated)) for key, found in state.jobs.items()
        },
    }


def _positive(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def idle(state: State, node: int, account: int = 0) -> int:
    """Cores that are idle (account 0), will be idle (1) or are used (2)."""
    axis = state.nodes.axis
    return int(state.nodes.rows[account * axis.size + axis.rows["cpu"], node]) // 1000


def test_allocating_takes_capacity_and_makes_the_job_ready() -> None:
    state = cluster()
    session, journal = opened(state)
    session.statement().allocate(tasks(state, "a-0", "a-1"), [0, 1])
    assert [(t.status, t.node) for t in tasks(state, "a-0", "a-1")] == [(Status.ALLOCATED, 0), (Status.ALLOCATED, 1)]
    assert (idle(state, 0), idle(state, 1), idle(state, 1, 1), idle(state, 1, 2)) == (1, 3, 3, 1)
    assert of(state, "a").ready == 2 and of(state, "a").count[Status.PENDING] == 1
    assert journal.entries == [("allocated", "ALLOCATE", ["a-0", "a-1"])]


def test_pipelining_takes_only_what_will_be_idle() -> None:
    state = cluster()
    session, journal = opened(state)
    session.statement().pipeline(tasks(state, "a-0"), [1])
    assert task(state, "a-0").status == Status.PIPELINED and task(state, "a-0").node == 1
    assert (idle(state, 1), idle(state, 1, 1), idle(state, 1, 2)) == (4, 3, 0)
    assert of(state, "a").waiting == 1 and of(state, "a").ready == 0
    assert journal.entries == [("allocated", "PIPELINE", ["a-0"])]


def test_an_evicted_pod_stays_on_its_node_and_frees_it_for_later() -> None:
    state = cluster()
    session, journal = opened(state)
    statement = session.statement()
    statement.evict(task(state, "old-0"), task(state, "a-0"), "preempt")
    assert task(state, "old-0").status == Status.RELEASING and task(state, "old-0").node == 0
    assert (idle(state, 0), idle(state, 0, 1), idle(state, 0, 2)) == (2, 3, 2)
    assert journal.entries == [("released", "EVICT", ["old-0"])]
    move = statement.moves[0]
    assert (move.by, move.rule, move.previous_status) == (task(state, "a-0"), "preempt", Status.RUNNING)


@pytest.mark.parametrize("undo", ["discard", "rollback"])
def test_what_is_undone_is_as_it_was_and_ledgers_learn_of_it_last_move_first(undo: str) -> None:
    state = cluster()
    session, journal = opened(state)
    before = picture(state)
    statement = session.statement()
    statement.evict(task(state, "old-0"), None, "reclaim")
    statement.pipeline(tasks(state, "a-0"), [0])
    statement.allocate(tasks(state, "a-1", "a-2"), [1, 1])
    getattr(statement, undo)()
    assert picture(state) == before and statement.moves == []
    assert [entry[:2] for entry in journal.entries[3:]] == [
        ("released", "ALLOCATE"), ("released", "PIPELINE"), ("allocated", "EVICT")
    ]  # fmt: skip


def test_a_rollback_ends_at_its_checkpoint() -> None:
    state = cluster()
    session, _ = opened(state)
    statement = session.statement()
    statement.allocate(tasks(state, "a-0"), [0])
    checkpoint, then = statement.checkpoint(), picture(state)
    statement.allocate(tasks(state, "a-1"), [0])
    statement.allocate(tasks(state, "a-2"), [0])
    statement.rollback(checkpoint)
    assert picture(state) == then and [move.task.name for move in statement.moves] == ["a-0"]


def test_committed_moves_are_bound_kept_moves_only_reserve() -> None:
    state = cluster()
    session, _ = opened(state)
    first, second = session.statement(), session.statement()
    first.allocate(tasks(state, "a-0"), [0])
    second.pipeline(tasks(state, "b-0"), [1])
    first.commit()
    second.keep()
    assert [move.task.name for move in session.committed] == ["a-0"]
    assert [move.task.name for move in session.reserved] == ["b-0"]
    now = picture(state)
    first.discard()
    second.discard()
    assert picture(state) == now, "nothing is left to undo"


def test_merging_hands_the_moves_over_in_order() -> None:
    state = cluster()
    session, _ = opened(state)
    before = picture(state)
    one, other = session.statement(), session.statement()
    one.allocate(tasks(state, "a-0"), [0])
    other.allocate(tasks(state, "a-1"), [0])
    one.merge(other)
    assert [move.task.name for move in one.moves] == ["a-0", "a-1"] and other.moves == []
    one.discard()
    assert picture(state) == before


def test_a_withdrawn_promise_is_gone_once_it_is_committed_and_back_if_it_is_not() -> None:
    state = cluster()
    session, journal = opened(state)
    unpromised = picture(state)
    promise = session.statement()
    promise.pipeline(tasks(state, "a-0"), [0])
    promise.pipeline(tasks(state, "b-0"), [1])
    promise.commit()
    promised = picture(state)
    statement = session.statement()
    statement.withdraw(session.committed[0], task(state, "b-1"))
    assert task(state, "a-0").status == Status.PENDING and task(state, "a-0").node == -1
    statement.discard()
    assert picture(state) == promised
    assert journal.entries[-1] == ("allocated", "PIPELINE", ["a-0"])
    statement.withdraw(session.committed[0], None)
    statement.withdraw(session.committed[1], None)
    statement.commit()
    assert picture(state) == unpromised and session.committed == []


def test_committing_a_withdrawal_commits_the_other_moves_of_the_statement() -> None:
    state = cluster()
    session, _ = opened(state)
    promise = session.statement()
    promise.pipeline(tasks(state, "a-0"), [0])
    promise.commit()
    statement = session.statement()
    statement.withdraw(session.committed[0], None)
    statement.allocate(tasks(state, "b-0"), [0])
    statement.commit()
    assert [(move.kind, move.task.name) for move in session.committed] == [(MoveKind.ALLOCATE, "b-0")]


def test_pods_of_other_schedulers_have_no_job_and_still_change_status() -> None:
    state = cluster()
    session, _ = opened(state)
    stranger = task(state, "old-1")
    of(state, "old").drop(stranger)
    statement = session.statement()
    statement.evict(stranger, None, "preempt")
    assert stranger.status == Status.RELEASING
    statement.discard()
    assert stranger.status == Status.RUNNING
