"""Nodes that look alike: equal in what they offer and in every account of their load.

Most nodes of a cluster are of a few kinds, and many of them are empty. A term that reads nothing of a node but its
columns says the same of all that look alike, so it is asked once for each kind. A node that changes stands for itself
from then on.
"""

from __future__ import annotations

import numpy as np

from muster.engine.core.nodes import Nodes
from muster.engine.core.values import Index

WORTH_IT = 4  # one node in so many at most may stand for itself; else asking about all is as good
FEWEST = 256  # nodes
_FACTOR = 0x9E3779B97F4A7C15  # odd and large: sums of what differs hardly ever agree


class Alike:
    """The kinds of nodes in one cycle."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._kind_of: Index | None = None
        self._cursor = 0
        self._again = 0  # the length of the log at which it may be worth looking once more

    def kinds(self) -> tuple[Index, Index] | None:
        """A node of each kind, and per node its kind; None: there are too many kinds."""
        log = self._nodes.log
        if self._kind_of is None:
            if len(self._nodes) < FEWEST or len(log) < self._again:
                return None
            self._sort()
        elif len(log) > self._cursor:
            for node in dict.fromkeys(log[self._cursor :]):
                self._set_apart(node)
        self._cursor = len(log)
        if self._count * WORTH_IT > len(self._nodes):
            self._kind_of, self._again = None, len(log) + len(self._nodes) // WORTH_IT
            return None
        assert self._kind_of is not None
        return self._one[: self._count], self._kind_of

    def _sort(self) -> None:
        columns = np.concatenate([self._nodes.rows, self._nodes.alloc])
        # Equal columns have equal sums, whatever the factors; that others have not is looked at.
        factors = [pow(_FACTOR, i, 1 << 64) for i in range(1, len(columns) + 1)]
        sums = (columns * np.array(factors, np.uint64).view(np.int64)[:, None]).sum(axis=0)
        _, first, kind_of = np.unique(sums, return_index=True, return_inverse=True)
        count = len(first)
        if (columns != columns[:, first[kind_of]]).any():
            first = kind_of = np.arange(len(self._nodes))
            count = len(first)
        self._kind_of = kind_of.astype(np.int64)
        self._members = np.argsort(kind_of, kind="stable")  # by kind
        self._next = np.searchsorted(kind_of[self._members], np.arange(count)).tolist()
        self._ends = [*self._next[1:], len(kind_of)]
        self._sorted = count
        self._count = count
        self._one = np.empty(len(self._nodes) + count, np.int64)
        self._one[:count] = first

    def _set_apart(self, node: int) -> None:
        assert self._kind_of is not None
        kind = int(self._kind_of[node])
        if kind >= self._sorted:
            return  # it stands for itself already
        self._kind_of[node] = self._count
        self._one[self._count] = node
        self._count += 1
        if self._one[kind] == node:
            at, end = self._next[kind], self._ends[kind]
            while at < end and self._kind_of[self._members[at]] != kind:
                at += 1
            self._next[kind] = at
            if at < end:
                self._one[kind] = self._members[at]
