"""The first queue in queue order, again and again, while placements move queues.

Where queues form a tree a placement moves its queue, and with it everything under the same ancestors, against the
rest. Each ancestor therefore has a heap of what lies directly under it, and the way down to the queue whose turn it is
stays out of all of them until its turn is over: what is left in a heap has not moved against its neighbours. (Volcano
has one heap of all queues, which is stale after such a move.) Without a tree there is one heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any

from muster.engine.core.jobs import Queue
from muster.engine.core.session import Session


class Family:
    """What lies directly under one ancestor, the best first: queues, and the families of ancestors further down."""

    __slots__ = ("heap", "inner")

    def __init__(self) -> None:
        self.heap: list[tuple[Any, Queue | Family]] = []  # with the rank of the queue, or of the family's best one
        self.inner: dict[str, Family] = {}


class Families:
    def __init__(self, session: Session, queues: Iterable[Queue]) -> None:
        self._session = session
        self._rank = cmp_to_key(session.queue_cmp)
        self._upheavals = session.queue_reorder_epoch()
        self._way: list[Family] = []  # to the queue whose turn it is; none of them lies in the heap above it
        self._root = Family()
        self._build(queues)

    def pop(self) -> Queue | None:
        """Take out the first queue."""
        self._return()
        if self._upheavals != (now := self._session.queue_reorder_epoch()):
            self._upheavals = now
            self._build(_members(self._root))
        family = self._root
        if not family.heap:
            return None
        while True:
            self._way.append(family)
            found = heapq.heappop(family.heap)[1]
            if isinstance(found, Queue):
                return found
            family = found

    def back(self, queue: Queue) -> None:
        """Put back the queue that was taken out last."""
        heapq.heappush(self._way[-1].heap, (self._rank(queue), queue))

    def _return(self) -> None:
        """The last turn is over: its families go back into the heaps above them, at their new places."""
        way, self._way = self._way, []
        while len(way) > 1:
            family = way.pop()
            if family.heap:
                heapq.heappush(way[-1].heap, (family.heap[0][0], family))

    def _build(self, queues: Iterable[Queue]) -> None:
        self._root = Family()
        families = [self._root]
        for queue in queues:
            at = self._root
            for name in self._session.queue_ancestors(queue):
                if name not in at.inner:
                    at.inner[name] = Family()
                    families.append(at.inner[name])
                at = at.inner[name]
            at.heap.append((self._rank(queue), queue))
        for family in reversed(families):  # those further down are done before
            family.heap += [(below.heap[0][0], below) for below in family.inner.values()]
            heapq.heapify(family.heap)


def _members(family: Family) -> list[Queue]:
    found: list[Queue] = []
    left = [family]
    for each in left:
        for _, entry in each.heap:
            if isinstance(entry, Queue):
                found.append(entry)
            else:
                left.append(entry)
    return sorted(found, key=lambda queue: queue.name)
