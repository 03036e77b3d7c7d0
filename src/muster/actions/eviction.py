"""What reclaim and preempt share: making room for one task on one node, with no victim more than needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muster.engine.jobs import Status, Task
from muster.engine.session import Session
from muster.engine.statement import Statement, revert

Enough = Callable[[], bool]


def fits_future(session: Session, task: Task, node: int, extra: Sequence[Task] = ()) -> bool:
    """request ≤ future idle, plus what these tasks would free."""
    nodes = session.state.nodes
    size = nodes.axis.size
    free = nodes.rows[size : 2 * size, node]
    request = task.shape.request(nodes.axis)
    if extra:
        free = free.copy()
        for victim in extra:
            free += victim.shape.request(nodes.axis)
    return bool((request <= free).all())


def make_room(statement: Statement, claimer: Task, victims: Sequence[Task], rule: str, enough: Enough) -> bool:
    """Evict in victim order until it is enough, then give back whoever turns out not to be needed."""
    start = statement.checkpoint()
    for victim in victims:
        if enough():
            break
        statement.evict(victim, claimer, rule)
    if not enough():
        statement.rollback(start)
        return False
    reprieve(statement, start, enough)
    return True


def reprieve(statement: Statement, start: int, enough: Enough) -> None:
    """Spare victims, highest priority first, as long as it stays enough without them."""
    session = statement.session
    made = statement.moves[start:]
    if len(made) < 2:
        return
    spared = set()
    for move in sorted(made, key=lambda m: (-m.task.priority, m.task.key)):
        revert(session, move)
        if enough():
            spared.add(id(move))
        else:
            # An eviction done again is the same integers again.
            again = statement.session.statement()
            again.evict(move.task, move.by, move.rule)
    statement.moves[start:] = [m for m in made if id(m) not in spared]


def evictable(session: Session, node: int, statuses: tuple[Status, ...]) -> list[Task]:
    """Pods on the node that belong to a job of the session and may be evicted at all."""
    return [
        t for t in session.state.nodes.on[node].values()
        if t.status in statuses and t.preemptable and t.job is not None and t.job.queue is not None
    ]  # fmt: skip


def reach(session: Session, task: Task) -> list[int]:
    """The nodes that evictions could make fit, by name."""
    return [int(n) for n in np.flatnonzero(session.placement.possible(task))]


