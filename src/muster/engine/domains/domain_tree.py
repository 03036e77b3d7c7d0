"""Domain trees as data: zones, blocks and racks (or switches and switches of switches) as ranges of permuted nodes.

A tree has levels from the widest to the narrowest; level 0 is its root, which holds every node of the tree. A domain is
a whole path (two racks of one name in two zones are two domains), numbered per level in the order of paths. Nodes are
permuted so that every domain is a range; a sum per domain is then one `reduceat` at the narrowest level and one over
the level below for each level above. A `Cut` is the tree over some of its nodes, at the cost of those nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, Index

Ids = NDArray[np.int64]


class DomainSums:
    """Per level: rows × segments. `everywhere` has the segments of all levels, the root first."""

    __slots__ = ("_ends", "everywhere")

    def __init__(self, everywhere: NDArray[np.int64], ends: Sequence[int]) -> None:
        self.everywhere = everywhere
        self._ends = ends

    def __getitem__(self, level: int) -> NDArray[np.int64]:
        return self.everywhere[:, self._ends[level - 1] if level else 0 : self._ends[level]]

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return (self[level] for level in range(len(self._ends)))

    def copy(self) -> DomainSums:
        return DomainSums(self.everywhere.copy(), self._ends)


class Level(Struct, frozen=True):
    """One level of a cut. A segment is a domain, or a run of nodes that are in no domain of this level."""

    starts: Index  # where each segment begins among the cut's nodes
    ends: Index
    ids: Index  # per segment the domain's number, −1 for nodes in no domain
    parent: Index  # per segment that of the level above
    below: Index  # per segment its first segment of the level below
    real: Bools  # per segment whether it is a domain


class DomainTree:
    def __init__(self, name: str, levels: Sequence[str], ids: Ids, paths: Sequence[Sequence[str]]) -> None:
        """`ids` has a row per level (the root first) and a column per node of the cluster, −1 outside the tree."""
        self.name = name
        self.levels = list(levels)  # what users call each level; the root's is ""
        self.ids = ids
        self.paths = paths  # per level the domains' names by number
        self.everything = Cut(self, np.flatnonzero(ids[0] >= 0))

    def cut(self, index: Index) -> Cut:
        """The tree over the nodes of a node set."""
        if len(index) == self.ids.shape[1]:
            return self.everything
        return Cut(self, index[self.ids[0, index] >= 0])

    def level(self, key: str) -> int | None:
        """The number of a level by its users' name."""
        return self.levels.index(key) if key in self.levels[1:] else None


@dataclass(slots=True)
class Cut:
    tree: DomainTree
    members: Index  # sorted node indices
    order: Index = field(init=False)  # the same by path
    tiers: list[Level] = field(init=False)
    ends: list[int] = field(init=False)  # per level where its segments end among those of all levels
    _nodes: dict[tuple[int, int], Index] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        ids = self.tree.ids[:, self.members]
        permutation = np.lexsort(ids[::-1])
        self.order = self.members[permutation]
        ids = ids[:, permutation]
        count = len(self.order)
        self.tiers = []
        fresh = np.zeros(count, np.bool_)
        fresh[:1] = True
        above = np.zeros(count, np.int64)
        for row in ids:
            fresh[1:] |= row[1:] != row[:-1]
            starts = np.flatnonzero(fresh)
            ends = np.append(starts[1:], count) if count else starts
            self.tiers.append(Level(starts, ends, row[starts], above[starts], starts, row[starts] >= 0))
            above = np.cumsum(fresh) - 1
        for i, (wide, narrow) in enumerate(zip(self.tiers, self.tiers[1:], strict=False)):
            below = np.searchsorted(narrow.starts, wide.starts)
            self.tiers[i] = replace(wide, below=below)
        self.ends = list(accumulate(len(tier.starts) for tier in self.tiers))

    def nodes(self, level: int, segment: int) -> Index:
        """The nodes of a domain, sorted."""
        found = self._nodes.get((level, segment))
        if found is None:
            tier = self.tiers[level]
            found = self._nodes[level, segment] = np.sort(self.order[tier.starts[segment] : tier.ends[segment]])
        return found

    def segments(self, level: int) -> Index:
        """Per node of `order` its segment of the level."""
        tier = self.tiers[level]
        return np.repeat(np.arange(len(tier.starts)), tier.ends - tier.starts)

    def path(self, level: int, segment: int) -> str:
        return self.tree.paths[level][int(self.tiers[level].ids[segment])]

    def sums(self, narrowest: NDArray[np.int64]) -> DomainSums:
        """DomainSums upwards: from rows × narrowest segments to the same for every level, the root first."""
        found = DomainSums(np.empty((len(narrowest), self.ends[-1]), np.int64), self.ends)
        found[len(self.tiers) - 1][:] = narrowest
        for level in range(len(self.tiers) - 2, -1, -1):
            if len(self.tiers[level].below):
                np.add.reduceat(found[level + 1], self.tiers[level].below, axis=1, out=found[level])
        return found

    def chains(self) -> Index:
        """Per narrowest segment its position among the segments of all levels, and those of the segments around it."""
        at, found = np.arange(len(self.tiers[-1].starts)), []
        for tier, end in zip(self.tiers[::-1], self.ends[::-1], strict=True):
            found.append(at + (end - len(tier.starts)))
            at = tier.parent[at]
        return np.stack(found, axis=1)

    def count(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows × nodes of `order` → rows × narrowest segments."""
        starts = self.tiers[-1].starts
        return np.add.reduceat(values, starts, axis=1) if len(starts) else values[:, :0]


def tree_of(name: str, levels: Sequence[str], codes: Ids, names: Sequence[Sequence[str]]) -> DomainTree:
    """A tree from a value code per level and node; −1: the node is in no domain of that level.

    A node without any code is outside the tree. `names[level][code]` is what the value is called.
    """
    depth, count = codes.shape
    members = np.flatnonzero((codes >= 0).any(axis=0)) if depth else np.empty(0, np.int64)
    order = members[np.lexsort(codes[::-1, members])] if depth else members
    ids = np.full((depth + 1, count), -1, np.int64)
    ids[0, order] = 0
    paths: list[list[str]] = [["/"]]
    fresh = np.zeros(len(order), np.bool_)
    fresh[:1] = True
    for level in range(depth):
        row = codes[level, order]
        fresh = fresh.copy()
        fresh[1:] |= row[1:] != row[:-1]
        real = row >= 0
        ids[level + 1, order] = np.where(real, np.cumsum(fresh & real) - 1, -1)
        firsts = order[np.flatnonzero(fresh & real)]
        paths.append(
            ["/".join(names[k][codes[k, n]] for k in range(level + 1) if codes[k, n] >= 0) for n in firsts.tolist()]
        )
    return DomainTree(name, ["", *levels], ids, paths)
