"""Whatever a statement does, resources are conserved; whatever it takes back is as if it had never been."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import ALLOCATED_LIKE, Status, Task
from muster.engine.core.nodes import Nodes
from muster.engine.core.session import Session
from muster.plugin_checks.ledgers import all_answers, random_move, session_without_promises
from strategies.clusters import Cluster, Drawn, clusters
from strategies.configurations import configurations
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


def accounts(nodes: Nodes, tasks: dict[str, Task], node: int) -> list[list[int]]:
    """The five accounts of a node, added up anew from the pods that are on it."""
    axis = nodes.axis
    idle = nodes.offered[:, node].copy()
    future, used, load = idle.copy(), np.zeros_like(idle), np.zeros_like(idle)
    nonzero = np.zeros(2, np.int64)
    for task in tasks.values():
        if task.node != node:
            continue
        request, terminating = task.shape.request(axis), task.status == Status.RELEASING
        terminates_in_cluster = terminating and task.pod.metadata.deletion_timestamp is not None
        if task.status in (*ALLOCATED_LIKE, Status.RELEASING, Status.UNKNOWN):
            idle -= request
            used += request
            if not terminating:
                future -= request
        elif task.status == Status.PIPELINED:
            future -= request
        else:
            continue
        if not terminating or terminates_in_cluster:  # one that was evicted in this cycle is no load any more
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


@given(clusters(), configurations(), st.data())
@examples(150)
def test_what_is_undone_has_never_been(cluster: Cluster, config: Config, data: st.DataObject) -> None:
    state = cluster.state()
    session = session_without_promises(Scheduler(config), state)
    all_answers(session)  # what plugins make when first asked is there now
    began = columns(session), all_answers(session)
    session.promises.open()  # its moves are taken back at the end, too
    for _ in range(data.draw(st.integers(1, 4))):
        statement = session.statement()
        start = columns(session), all_answers(session)
        marks = []
        for _ in range(data.draw(st.integers(1, 4))):
            marks.append((statement.checkpoint(), columns(session)))
            random_move(session, statement, Drawn(data.draw))
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
            assert all_answers(session) == start[1]
        check_conserved(session)
    session.close()
    assert columns(session) == began[0]
    for task in state.tasks.values():
        session.signature(task)
    assert all_answers(session) == began[1], "a ledger is not as it was"
