"""Checks that what a statement undoes leaves no trace in any plugin: `released` is the exact inverse of `allocated`."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Batch, JobOrder, NodeFilter, NodeScorer, Preemptable, Reclaimable
from muster.engine.core.jobs import Status
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.core.statement import Statement
from muster.engine.evictions.promises import Promises
from muster.plugin_checks import CheckFailed
from muster.plugin_checks.choices import Choices
from muster.plugin_checks.random_clusters import NOW

__all__ = ["EVICTABLE", "all_answers", "check_ledgers", "random_move"]

Answers = dict[tuple[Any, ...], Any]
EVICTABLE = (Status.BOUND, Status.RUNNING)


def all_answers(session: Session) -> Answers:
    """What the plugins answer to everything they are asked; accounts that are not as before show here."""
    found: Answers = {}
    waiting = [t for t in session.state.tasks.values() if t.status == Status.PENDING and t.job and t.job.queue]
    running = [t for t in session.state.tasks.values() if t.status in EVICTABLE and t.job and t.job.queue]
    for job in session.jobs.values():
        found["job order", job.key] = [p.job_key(job) for p in session.flat(JobOrder)]
        found["ready", job.key] = (session.missing(job), session.pipelined(job), session.starving(job))
        found["valid", job.key] = session.valid(job) is None
    for a in session.queues.values():
        if a.jobs:
            found["overused", a.name] = session.overused(a) is None
            found["queue order", a.name] = [
                session.queue_cmp(a, b) for b in session.queues.values() if b.jobs and b is not a
            ]
    for task in waiting:
        assert task.job is not None and task.job.queue is not None
        found["quota", task.key] = session.admits(task.job.queue, task, 7), session.preemptive(task.job.queue, task)
        for kind in (MoveKind.ALLOCATE, MoveKind.PIPELINE):
            view = session.state.nodes.everything()
            view.kind = kind
            terms: list[tuple[str, NodeFilter | NodeScorer]]
            terms = [*session.placement.filters, *session.placement.scorers]
            for plugin, term in terms:
                what = "score" if isinstance(term, NodeScorer) else "filter"
                found["batch", plugin, what, term.term, task.key, kind.name] = batch = term.batch(task)
                if batch != Batch.SKIP:
                    given = term.raw(task, view) if isinstance(term, NodeScorer) else term.filter(task, view).code
                    found[what, plugin, term.term, task.key, kind.name] = given.tolist()
            found["fits", task.key, kind.name] = session.placement.fits(task, kind).tolist()
        for p in session.flat(Preemptable):
            found["preemptable", type(p).__name__, task.key] = p.preemptable(task, running)
        for r in session.flat(Reclaimable):
            found["reclaimable", type(r).__name__, task.key] = r.reclaimable(task, running)
    return found


def random_move(session: Session, statement: Statement, choices: Choices) -> None:
    """A move that an action could make: equal tasks to nodes that take them, or an eviction."""
    tasks = session.state.tasks.values()
    running = [t for t in tasks if t.status in EVICTABLE and t.job is not None]
    waiting = [t for t in tasks if t.status == Status.PENDING and t.job is not None]
    how = choices.one_of(("allocate", "pipeline", "evict", "allocate"))
    if how == "evict" and running:
        statement.evict(choices.one_of(running), waiting[0] if waiting else None, "preempt")
    elif how != "evict" and waiting:
        first = choices.one_of(waiting)
        kind = MoveKind.ALLOCATE if how == "allocate" else MoveKind.PIPELINE
        fitting = np.flatnonzero(session.placement.fits(first, kind)).tolist()
        if not fitting:
            return
        equal = [t for t in waiting if t.job is first.job and session.signature(t) == session.signature(first)]
        single = session.placement.answers(first).batch() != Batch.COLUMNS
        count = 1 if single else choices.integer(1, min(3, len(equal)))
        nodes = [choices.one_of(fitting) for _ in range(count)]
        (statement.allocate if how == "allocate" else statement.pipeline)(equal[:count], nodes)


def session_without_promises(scheduler: Scheduler, state: State) -> Session:
    """A session that has made no move yet; `session.promises.open()` makes those of earlier cycles."""
    with patch.object(Promises, "open"):
        return scheduler.session(state, NOW)


def check_ledgers(scheduler: Scheduler, state: State, choices: Choices) -> None:
    """Statements that are discarded, and the whole cycle at its end, leave every answer as it was."""
    session = session_without_promises(scheduler, state)
    all_answers(session)  # what plugins make when they are first asked is there now
    began = all_answers(session)
    session.promises.open()
    for _ in range(choices.integer(1, 3)):
        statement = session.statement()
        before = all_answers(session)
        for _ in range(choices.integer(1, 4)):
            random_move(session, statement, choices)
        if choices.flip():
            statement.commit()
        else:
            moves = _shown(statement)
            statement.discard()
            _compare(before, all_answers(session), f"were made and undone ({moves})")
    session.close()
    for task in state.tasks.values():
        session.signature(task)
    _compare(began, all_answers(session), "of a cycle were undone at its end")


def _shown(statement: Statement) -> str:
    return ", ".join(f"{move.kind.name.lower()} {len(move.tasks)} of {move.task.key}" for move in statement.moves)


def _compare(before: Answers, after: Answers, what: str) -> None:
    for question in before:
        if before[question] != after.get(question):
            asked = " ".join(str(part) for part in question if part != "")
            raise CheckFailed(
                "ledger",
                f"after moves {what}, the answer to `{asked}` is {after.get(question)} and was {before[question]}. "
                "`released` must be the exact inverse of `allocated`: integers only, and nothing else may change what "
                "the plugin remembers",
            )
