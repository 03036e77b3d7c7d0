"""Sorts the domains that could hold the pods, and scores the nodes inside each.

Narrow levels come before wide levels. Inside a level the order is: domains with members, then domains that could start
the pods at once, then domains that would hold more of the surplus, then the fuller domain (KAI: the children of a
fuller parent come before those of an emptier parent). Inside a domain that is wider than the preferred level, the
preferred domains are filled one after the other, the emptiest first, so that a gang needs few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from muster.engine.core.hooks import Bools, Floats, Index, NodeSet
from muster.engine.core.values import LazyNodeSets
from muster.engine.domains.demand import Counts
from muster.plugins.topology.constraints import LevelConstraint

POINTS = 10_000.0  # KAI: the points of one place in the order of preferred domains


class Ordered(LazyNodeSets):
    """Node sets that are built on access: usually the first one can hold the job."""

    def __init__(self, wanted: LevelConstraint, counts: Counts, nodes: NodeSet, pinned: Sequence[int] | None) -> None:
        """`pinned` are the nodes of members, if any. With a required level they decide, else they come first."""
        self.wanted = wanted
        self.counts = counts
        self.cut = counts.cut
        self.nodes = nodes
        self._pinned = pinned
        self._orders, self._ranks = self._ranked()
        self._found: dict[int, list[int]] = {}  # level → its segments in order; computed on first use
        # Nodes outside the tree may be used if no level is required: a preference must not keep a job pending.
        self._rest = wanted.required is None and len(nodes.index) > len(self.cut.members)

    def __iter__(self) -> Iterator[NodeSet]:
        for level in self.wanted.levels:
            for segment in self._level(level):
                yield self.domain(level, segment)
        if self._rest:
            yield self._everything()

    def __len__(self) -> int:
        return sum(len(self._level(level)) for level in self.wanted.levels) + self._rest

    def domain(self, level: int, segment: int) -> NodeSet:
        """Returns the node set of one domain."""
        index = self.cut.nodes(level, segment)
        tree = self.cut.tree
        # A nested domain of the same tree has its parents in its path; a choice of another plugin is named before it.
        outer = "" if self.nodes.label.startswith(f"{tree.name} ") else self.nodes.label
        label = f"{outer} {tree.name} {self.cut.path(level, segment)}".strip()
        score = self._scores(level, segment, index)
        return NodeSet(index, label, score, self._near(level), self.nodes.freed)

    def _everything(self) -> NodeSet:
        """Returns all given nodes, those of the tree before the others."""
        score = np.zeros(len(self.nodes.index))
        if len(self.cut.members):
            inside = self._scores(0, 0, self.cut.nodes(0, 0))
            at = np.searchsorted(self.nodes.index, self.cut.nodes(0, 0))
            score[at] = POINTS if inside is None else inside
        return NodeSet(self.nodes.index, self.nodes.label, score, self._near(0), self.nodes.freed)

    def _near(self, level: int) -> Index | None:
        ids = self.cut.tree.ids
        return ids[level + 1 :] if level + 1 < len(ids) else None

    # --- the order of domains

    def _ranked(self) -> tuple[list[Index], list[Index]]:
        """Returns per level its segments in order, fuller segments first inside the place of the parent, and the place
        of each segment.
        """
        deepest = self.wanted.levels[0]
        ranks = [np.zeros(len(self.cut.tiers[0].starts), np.int64)]
        orders = [np.arange(len(ranks[0]))]
        for level in range(1, deepest + 1):
            tier = self.cut.tiers[level]
            order = np.lexsort((-self.counts.ratio(level), ranks[-1][tier.parent]))
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            ranks.append(rank)
            orders.append(order)
        return orders, ranks

    def _level(self, level: int) -> list[int]:
        found = self._found.get(level)
        if found is None:
            found = self._found[level] = self._ordered(level)
        return found

    def _ordered(self, level: int) -> list[int]:
        """Returns the segments of a level that could hold the pods, in order."""
        counts, demand, pinned = self.counts, self.counts.demand, self._pinned
        fits = counts.fits(level, demand.least)
        home = None if pinned is None else self._homes(level, pinned)
        if home is not None and self.wanted.required is not None:
            fits &= home
        if not fits.any():
            return []
        keys: list[Index | Bools] = [self._ranks[level]]
        if demand.least is not demand.all:
            able = counts.pods(level)
            keys.append(~counts.fits(level, demand.all) if able is None else np.maximum(demand.count - able, 0))
        if counts.releasing:
            keys.append(~counts.now(level, demand.least))
        if home is not None:
            keys.append(~home)
        order = np.lexsort(keys) if len(keys) > 1 else self._orders[level]
        found: list[int] = order[fits[order]].tolist()
        return found

    def _homes(self, level: int, pinned: Sequence[int]) -> Bools:
        """Returns the segments in domains with members: of the required level, else of this level."""
        ids = self.cut.tree.ids
        tier = self.cut.tiers[level]
        home = np.zeros(len(tier.starts), np.bool_)
        if not len(self.cut.order):
            return home
        first = self.cut.order[tier.starts]  # a node of each segment represents its whole path
        for node in dict.fromkeys(pinned):
            widest = self.wanted.required if self.wanted.required is not None else level
            at = next((k for k in range(widest, len(ids)) if ids[k, node] >= 0), None)
            if at is not None and ids[0, node] >= 0:
                home |= ids[at, first] == ids[at, node]
        return home

    # --- scores inside a domain

    def _scores(self, level: int, segment: int, index: Index) -> Floats | None:
        preferred = self.wanted.preferred
        if preferred is None or preferred <= level:
            return self._given(index)
        cut, tier = self.cut, self.cut.tiers[level]
        fine = cut.tiers[preferred]
        start, end = int(tier.starts[segment]), int(tier.ends[segment])
        low, high = (int(at) for at in np.searchsorted(fine.starts, (start, end)))
        points = self._filling(preferred, low, high)
        per_node = np.repeat(points, fine.ends[low:high] - fine.starts[low:high])
        return per_node[np.argsort(cut.order[start:end], kind="stable")]

    def _given(self, index: Index) -> Floats | None:
        """Returns the scores of the given set. KAI: a sub-group without own scores keeps those of its parent."""
        if self.nodes.score is None:
            return None
        return self.nodes.score[np.searchsorted(self.nodes.index, index)]

    def _filling(self, level: int, low: int, high: int) -> Floats:
        """Returns points for the segments low … high: the first to be filled has the most."""
        rank = self._ranks[level][low:high]
        points = np.empty(len(rank))
        points[np.argsort(rank)] = POINTS * np.arange(1, len(rank) + 1)
        return points


def refused(wanted: LevelConstraint, counts: Counts, nodes: NodeSet) -> list[tuple[NodeSet, str]]:
    """Returns the domains of the tried levels that cannot hold the pods, and why."""
    ordered = Ordered(wanted, counts, nodes, None)
    found = []
    for level in wanted.levels:
        tier, fits = counts.cut.tiers[level], counts.fits(level, counts.demand.least)
        for segment in np.flatnonzero(tier.real & ~fits).tolist():
            found.append((ordered.domain(level, segment), counts.why_not(level, segment)))
    return found

