"""Whatever a statement does, resources are conserved; whatever it takes back is as if it had never been."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Batch, NodeScorer, Preemptable, Reclaimable
from muster.engine.core.jobs import ALLOCATED_LIKE, Status, Task
from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.evictions.promises import Promises
from strategies.any_cluster import NOW, Cluster, clusters
from strategies.any_configuration import configurations
from strategies.profiles import examples

Picture = dict[str, Any]
EVICTABLE = (Status.BOUND, Status.RUNNING)


def columns(session: Session) -> Picture:
    """The integers: columns, the state of tasks, the counts and sums of jobs."""
    state = session.state
    return {
        "rows": state.nodes.rows.tobytes(),
        "promised": state.nodes.pipelined,
        "tasks": {k: (t.status, t.node) for k, t in state.tasks.items()},
        "jobs": {
            k: (list(j.count), j.best_effort_pending, _some(j.allocated), _some(j.total))
            for k, j in state.jobs.items()
        },
    }  # fmt: skip


def _some(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def opinions(session: Session) -> Picture:
    """What every plugin says of everything it is asked about; ledgers that were not put back would show here."""
    said: Picture = {}
    waiting = [t for t in session.state.tasks.values() if t.status == Status.PENDING and t.job and t.job.queue]
    running = [t for t in session.state.tasks.values() if t.status in EVICTABLE and t.job and t.job.queue]
    for job in session.jobs.values():
        said["job", job.key] = [p.job_key(job) for p in session._job_order]
        said["gang", job.key] = (session.missing(job), session.pipelined(job), session.starving(job))
        said["valid", job.key] = session.valid(job) is None
    for a in session.queues.values():
        if a.jobs:
            said["overused", a.name] = session.overused(a) is None
            said["order", a.name] = [session.queue_cmp(a, b) for b in session.queues.values() if b.jobs and b is not a]
    for task in waiting:
        assert task.job is not None and task.job.queue is not None
        said["quota", task.key] = session.admits(task.job.queue, task, 7), session.preemptive(task.job.queue, task)
        for kind in (MoveKind.ALLOCATE, MoveKind.PIPELINE):
            view = session.state.nodes.everything()
            view.kind = kind
            for plugin, term in (*session.placement.filters, *session.placement.scorers):
                said["batch", plugin, term.term, task.key, kind] = batch = term.batch(task)
                if batch != Batch.SKIP:
                    found = term.raw(task, view) if isinstance(term, NodeScorer) else term.filter(task, view).code
                    said["term", plugin, term.term, task.key, kind] = found.tolist()
            said["fits", task.key, kind] = session.placement.fits(task, kind).tolist()
        for p in session.flat(Preemptable):
            said["preempt", type(p).__name__, task.key] = p.preemptable(task, running)
        for r in session.flat(Reclaimable):
            said["reclaim", type(r).__name__, task.key] = r.reclaimable(task, running)
    return said


def accounts(nodes: Nodes, tasks: dict[str, Task], node: int) -> list[list[int]]:
    """The five accounts of a node, added up anew from the pods that are on it."""
    axis = nodes.axis
    idle = nodes.alloc[:, node].copy()
    future, used, load = idle.copy(), np.zeros_like(idle), np.zeros_like(idle)
    nonzero = np.zeros(2, np.int64)
    for task in tasks.values():
        if task.node != node:
            continue
        request, leaving = task.shape.request(axis), task.status == Status.RELEASING
        began_leaving = leaving and task.pod.metadata.deletion_timestamp is not None
        if task.status in (*ALLOCATED_LIKE, Status.RELEASING, Status.UNKNOWN):
            idle -= request
            used += request
            if not leaving:
                future -= request
        elif task.status == Status.PIPELINED:
            future -= request
        else:
            continue
        if not leaving or began_leaving:  # one that was evicted in this cycle is no load any more
            load += request
            nonzero += np.array(task.shape.nonzero, np.int64)
    return [column.tolist() for column in (idle, future, used, load, nonzero)]


def check_conserved(session: Session) -> None:
    state = session.state
    size = state.axis.size
    for node in range(len(state.nodes)):
        column = state.nodes.rows[:, node]
        parts = [column[i * size : (i + 1) * size].tolist() for i in range(4)] + [column[4 * size :].tolist()]
        assert parts == accounts(state.nodes, state.tasks, node), state.nodes.names[node]
    for job in state.jobs.values():
        tasks = list(job.tasks.values())
        assert job.count == [sum(t.status == s for t in tasks) for s in Status]
        assert job.best_effort_pending == sum(t.status == Status.PENDING and t.best_effort for t in tasks)
        held: dict[str, int] = {}
        for task in tasks:
            if task.status in ALLOCATED_LIKE:
                for name, amount in task.shape.amounts.items():
                    held[name] = held.get(name, 0) + amount
        assert _some(job.allocated) == _some(held)


def act(session: Session, statement: Statement, data: st.DataObject) -> None:
    """Some move that an action could make: equal tasks to nodes that take them, or an eviction."""
    tasks = session.state.tasks.values()
    running = [t for t in tasks if t.status in EVICTABLE and t.job is not None]
    waiting = [t for t in tasks if t.status == Status.PENDING and t.job is not None]
    how = data.draw(st.sampled_from(["allocate", "pipeline", "evict", "allocate"]))
    if how == "evict" and running:
        statement.evict(data.draw(st.sampled_from(running)), waiting[0] if waiting else None, "preempt")
    elif how != "evict" and waiting:
        first = data.draw(st.sampled_from(waiting))
        kind = MoveKind.ALLOCATE if how == "allocate" else MoveKind.PIPELINE
        rooms = np.flatnonzero(session.placement.fits(first, kind)).tolist()
        if not rooms:
            return
        equal = [t for t in waiting if t.job is first.job and session.signature(t) == session.signature(first)]
        single = session.placement.answers(first).batch() != Batch.COLUMNS
        count = 1 if single else data.draw(st.integers(1, min(3, len(equal))))
        nodes = [data.draw(st.sampled_from(rooms)) for _ in range(count)]
        (statement.allocate if how == "allocate" else statement.pipeline)(equal[:count], nodes)


@given(clusters(), configurations(), st.data())
@examples(150)
def test_what_is_undone_has_never_been(cluster: Cluster, config: Config, data: st.DataObject) -> None:
    state = cluster.state()
    with patch.object(Promises, "open"):
        session = Scheduler(config).session(state, NOW)
    opinions(session)  # what plugins make when first asked is there now
    began = columns(session), opinions(session)
    session.promises.open()  # its moves are taken back at the end, too
    for _ in range(data.draw(st.integers(1, 4))):
        statement = session.statement()
        start = columns(session), opinions(session)
        marks = []
        for _ in range(data.draw(st.integers(1, 4))):
            marks.append((statement.checkpoint(), columns(session)))
            act(session, statement, data)
        check_conserved(session)
        end = data.draw(st.sampled_from(["discard", "commit", "keep", "rollback", "merge"]))
        if end == "rollback":
            checkpoint, then = data.draw(st.sampled_from(marks))
            statement.rollback(checkpoint)
            assert columns(session) == then
        if end == "merge":
            other = session.statement()
            other.merge(statement)
            statement = other
        if end == "keep":
            statement.keep()
        elif end == "commit":
            statement.commit()
        else:
            statement.discard()
            assert columns(session) == start[0]
            assert opinions(session) == start[1]
        check_conserved(session)
    session.close()
    assert columns(session) == began[0]
    for task in state.tasks.values():
        session.signature(task)
    assert opinions(session) == began[1], "a ledger is not as it was"
