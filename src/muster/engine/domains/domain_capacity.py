"""Counts the free capacity of topology domains: free amounts and copies of a pod per domain, kept current from the log.

Capacity is future idle, never below zero per node; `now` is what is idle at once. A count is an upper bound of what a
domain can take: other rules may refuse the domain when it is tried, but a domain that the count refuses cannot hold the
pods in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Index
from muster.engine.core.jobs import Task
from muster.engine.domains.domain_tree import Cut, DomainSums

if TYPE_CHECKING:
    from muster.engine.core.session import Session

Rows = NDArray[np.int64]
FREE, NOW = 0, 1  # rows of copies: once what is releasing is gone, and at once
_MOST_COPIES = 1 << 40


class Column:
    """Rows of integers per node and their sums per domain; only changed nodes are computed again."""

    def __init__(self, log: list[int], compute: Callable[[Index], Rows], count: int) -> None:
        self._log = log
        self._compute = compute
        self._values = compute(np.arange(count))
        self._cursor = len(log)
        self._kept: dict[int, KeptSums] = {}  # by the id of the cut

    def values(self) -> Rows:
        since = set(self._log[self._cursor :])
        if since:
            self._cursor = len(self._log)
            changed = np.array(list(since), np.int64)
            fresh = self._compute(changed)
            change = fresh - self._values.take(changed, axis=1)
            self._values[:, changed] = fresh
            for kept in self._kept.values():
                kept.add(changed, change)
        return self._values

    def sums(self, cut: Cut) -> DomainSums:
        """Per level rows × segments."""
        values = self.values()
        if cut is not cut.tree.everything:
            return cut.sums(cut.count(values[:, cut.order]))
        kept = self._kept.get(id(cut))
        if kept is None:
            kept = self._kept[id(cut)] = KeptSums(cut, values)
        return kept.sums.copy()


class KeptSums:
    """The sums of a column over the segments of a cut."""

    def __init__(self, cut: Cut, values: Rows) -> None:
        self._cut = cut  # whose id is the key: it must live
        self.sums = cut.sums(cut.count(values[:, cut.order]))
        self._segment = np.full(values.shape[1], -1, np.int64)  # per node its narrowest segment; −1: none
        self._segment[cut.order] = cut.segments(len(cut.tiers) - 1)
        self._chains = cut.chains().tolist()

    def add(self, nodes: Index, change: Rows) -> None:
        """Adds each column of the change to the segments of its node. Usually only a few segments change."""
        at = self._segment.take(nodes)
        segments = set(at.tolist())
        for segment in segments - {-1}:
            part = change if len(segments) == 1 else change[:, at == segment]
            total = np.add.reduce(part, axis=1)
            for position in self._chains[segment]:
                column = self.sums.everywhere[:, position]
                column += total


class DomainCapacity:
    """The free capacity of domains in one cycle: `copies` per signature, `free` for all tasks."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.nodes = session.state.nodes
        self._copies: dict[int, Column] = {}
        self._free: Column | None = None
        self._shared: dict[int, Column] = {}

    def rows(self, at: Index) -> Rows:
        """What is free on these nodes, per resource: at once, then once what is releasing is gone."""
        return self.nodes.free.take(at, axis=1)

    def free(self) -> Column:
        """2·R rows: per resource what is free at once, then what will be."""
        if self._free is None:
            self._free = Column(self.nodes.log, lambda at: np.maximum(self.rows(at), 0), len(self.nodes))
        return self._free

    def shared(self, key: int) -> Column:
        """Two rows, by `FREE` and by `NOW`: what is free of a resource that few nodes have."""
        column = self._shared.get(key)
        if column is None:
            everywhere = np.arange(len(self.nodes))

            def compute(at: Index) -> Rows:
                return self.shared_rows(key, self.rows(everywhere))[:, at]

            column = self._shared[key] = Column(self.nodes.log, compute, len(self.nodes))
        return column

    def shared_rows(self, key: int, free: Rows) -> Rows:
        """The same of all nodes, from what is free by row."""
        now, later = np.split(free, 2)
        account = self.nodes.everything().account
        return np.maximum(np.stack([account(later)[key], account(now)[key]]), 0)

    def copies(self, task: Task) -> Column:
        """Two rows: how many pods like this one each node could take, by `FREE` and by `NOW`.

        Nodes that a static filter refuses take none: nothing in a cycle changes their answer.
        """
        signature = self.session.signature(task)
        column = self._copies.get(signature)
        if column is None:
            usable = self.session.placement.answers(task).static
            shape, everywhere = task.shape, bool(usable.all())

            def compute(at: Index) -> Rows:
                found = copies(self.rows(at), shape.request(self.nodes.axis))
                return found if everywhere else found * usable[at]

            column = self._copies[signature] = Column(self.nodes.log, compute, len(self.nodes))
        return column


class EmptyClusterCapacity(DomainCapacity):
    """The capacity of domains if no pod ran: what does not fit here never fits."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._empty = self.nodes.empty().rows[: 2 * self.nodes.axis.size]

    def rows(self, at: Index) -> Rows:
        return self._empty[:, at]


def copies(rows: Rows, request: Rows) -> Rows:
    """How many of the request fit into each column of node rows: by future idle, and by idle and future idle."""
    asked = (request > 0).nonzero()[0]
    free = rows.reshape(2, len(request), -1).take(asked, axis=1)  # at once, then once what is releasing is gone
    free //= request.take(asked)[:, None]
    found: Rows = np.maximum(np.minimum.reduce(free, axis=1, initial=_MOST_COPIES)[::-1], 0)
    np.minimum(found[NOW], found[FREE], out=found[NOW])
    return found
