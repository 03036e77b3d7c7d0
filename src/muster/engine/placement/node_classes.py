"""Groups nodes into classes with equal columns, so that a term is evaluated once per class.

Most nodes of a cluster are of a few types, and many of them are empty. A term that reads only a node's columns gives
the same answer for all nodes of a class. A node that changes gets a class for itself.
"""

from __future__ import annotations

import numpy as np

from muster.engine.core.nodes import Nodes
from muster.engine.core.values import Index

MIN_NODES_PER_CLASS = 4  # with fewer, evaluating every node is as fast
MIN_NODES = 256
_FACTOR = 0x9E3779B97F4A7C15  # odd and large: different columns hardly ever have equal sums


class NodeClasses:
    """The node classes of one cycle, kept current from the log of changed nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._class_of: Index | None = None
        self._cursor = 0
        self.grouping = 0  # grows when the classes are computed again
        self._next_try = 0  # the length of the log at which the classes are computed again

    def classes(self) -> tuple[Index, Index] | None:
        """Returns the first node of each class, and the class of every node; None if there are too many classes."""
        log = self._nodes.log
        if self._class_of is None:
            if len(self._nodes) < MIN_NODES or len(log) < self._next_try:
                return None
            self._group()
        elif len(log) > self._cursor:
            for node in dict.fromkeys(log[self._cursor :]):
                self._separate(node)
        self._cursor = len(log)
        if self._count * MIN_NODES_PER_CLASS > len(self._nodes):
            self._class_of, self._next_try = None, len(log) + len(self._nodes) // MIN_NODES_PER_CLASS
            return None
        assert self._class_of is not None
        return self._representative[: self._count], self._class_of

    def _group(self) -> None:
        self.grouping += 1
        columns = np.concatenate([self._nodes.rows, self._nodes.offered, self._nodes.marks[None]])
        # Equal columns have equal sums, whatever the factors. The comparison below finds collisions.
        factors = [pow(_FACTOR, i, 1 << 64) for i in range(1, len(columns) + 1)]
        sums = (columns * np.array(factors, np.uint64).view(np.int64)[:, None]).sum(axis=0)
        _, first, class_of = np.unique(sums, return_index=True, return_inverse=True)
        count = len(first)
        if (columns != columns[:, first[class_of]]).any():
            first = class_of = np.arange(len(self._nodes))
            count = len(first)
        self._class_of = class_of.astype(np.int64)
        self._members = np.argsort(class_of, kind="stable")  # sorted by class
        self._next = np.searchsorted(class_of[self._members], np.arange(count)).tolist()
        self._ends = [*self._next[1:], len(class_of)]
        self._grouped = count
        self._count = count
        self._representative = np.empty(len(self._nodes) + count, np.int64)
        self._representative[:count] = first

    def _separate(self, node: int) -> None:
        """Gives a node that has changed a class for itself."""
        assert self._class_of is not None
        old = int(self._class_of[node])
        if old >= self._grouped:
            return  # it has one already
        if self._representative[old] == node:
            at, end = self._next[old], self._ends[old]
            while at < end and (self._members[at] == node or self._class_of[self._members[at]] != old):
                at += 1
            self._next[old] = at
            if at == end:
                return  # it is the last one of its class
            self._representative[old] = self._members[at]
        self._class_of[node] = self._count
        self._representative[self._count] = node
        self._count += 1
