"""The last look of reclaim and preempt: claims made one after the other may have taken more than all of them need.

Each claim gives back whom it does not need itself (`eviction`). But what a later claim frees may be room enough for an
earlier one as well: a pod of one core goes for the first, one of two cores for the second, and the first need not have
gone. Field rule: with any one of the victims spared somebody would have no room.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from muster.engine.jobs import Task
from muster.engine.nodes import Kind
from muster.engine.session import Session
from muster.engine.statement import Move, perform, revert

Granted = Callable[[Session, Task, int], bool]  # would the claim be granted as things stand?


def spare_unneeded(session: Session, since: int, granted: Granted) -> None:
    """Take back evictions among the committed moves from `since` on, highest priority first, while claims hold."""
    moves = session.committed[since:]
    # Of the sets of nodes that a job is tried on the one with the fewest victims is looked for as a whole.
    evictions = [m for m in moves if m.kind == Kind.EVICT and m.by and m.by.job and not m.by.job.attempt.divided]
    if len(evictions) < 2:
        return
    promises = [m for m in moves if m.kind == Kind.PIPELINE]
    spared = set()
    for eviction in sorted(_with_slack(session, evictions), key=lambda m: (-m.task.priority, m.task.key)):
        if _with_slack(session, [eviction]) and _hold(session, eviction, promises, granted):
            spared.add(id(eviction))
    if spared:
        session.committed[since:] = [m for m in moves if id(m) not in spared]


def _with_slack(session: Session, evictions: list[Move]) -> list[Move]:
    """Those on whose nodes as much room is to spare as the victim would take; most often there are none."""
    nodes = session.state.nodes
    size = nodes.axis.size
    free = nodes.rows[size : 2 * size, [m.nodes[0] for m in evictions]]
    wanted = np.stack([m.task.shape.request(nodes.axis) for m in evictions], axis=1)
    return [evictions[i] for i in np.flatnonzero((free >= wanted).all(axis=0)).tolist()]


def _hold(session: Session, eviction: Move, promises: list[Move], granted: Granted) -> bool:
    """Take the eviction back; if a claim that it may concern would not be granted then, it is done again."""
    revert(session, eviction)
    for promise in promises:
        if eviction.nodes[0] not in promise.nodes and not _share_a_queue(promise, eviction):
            continue
        revert(session, promise)
        stands = len(promise.tasks) == 1 and granted(session, promise.task, promise.nodes[0])
        if not stands:
            perform(session, eviction)
        perform(session, promise)
        if not stands:
            return False
    return True


def _share_a_queue(promise: Move, eviction: Move) -> bool:
    """A queue may be over its limit without the eviction, wherever that was."""
    return promise.job is not None and eviction.job is not None and promise.job.queue is eviction.job.queue
