"""Finds the node where evicting the cheapest victims lets a pod in.

The cost of victims on a node is first estimated, and known once they were evicted there. Both values are kept from pod
to pod and from claim to claim, and recomputed for nodes that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from muster.actions.victim_costs import VictimCosts
from muster.actions.victim_pool import Cost, VictimPool
from muster.engine.core.hooks import Bools, Floats, Index
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.placement.batch import best_heads

_MAX_EXACT_NODES = 16  # with up to this number of nodes the cheapest is always found
_MAX_VICTIM_RATIO = 1.25  # with more nodes: victims relative to the lower bound of another node
_ESTIMATED = 64  # nodes that are compared with each other; if there are more, those with the best scores

Entry = tuple[Cost, float, int]  # a lower bound or estimate of the cost, the score (smaller is better), the node
# Evicts on a node up to a priority, by all orders of the units or by one; returns the cost, or None.
EvictOn = Callable[[Statement, Task, int, int, int, bool], Cost | None]


@dataclass(slots=True)
class _Compared:
    """Nodes that are compared with each other. For the next pod, only the node that was taken last has changed."""

    level: int
    left: list[Entry] = field(default_factory=list)  # a heap
    last: tuple[int, float] | None = None  # the node that was taken last, and its score


class CheapestVictims:
    """Chooses the victims in one attempt of a claim."""

    def __init__(
        self, session: Session, pool: VictimPool, costs: VictimCosts, evict_on: EvictOn,
        limits: Callable[[], Mapping[str, float]],
    ) -> None:  # fmt: skip
        """`limits` is the most that all further victims together may hold, where that is known."""
        self.session = session
        self.pool = pool
        self.costs = costs
        self.nodes = session.state.nodes
        self._evict_on = evict_on
        self._limits = limits
        self._bounds_key: tuple[int, int, bool] | None = None
        self._known: dict[int, Cost | None] = {}  # node → the cost of victims there, by `_bounds_key`
        self._seen = 0
        self._exact = True
        self._compared: _Compared | None = None

    def begin(self) -> None:
        """Starts another run of equal tasks."""
        self._compared = None

    def make_way(self, statement: Statement, task: Task, wanted: int, able: Bools) -> bool:
        """Evicts the cheapest victims that let one more such task in; returns False if no victims are enough."""
        compared, self._compared = self._compared, None
        goes_on = compared is not None and self._goes_on(compared, task, wanted)
        if compared is not None and goes_on and self._on_best(statement, task, wanted, compared):
            self._compared = compared
            return True
        needs = self.nodes.axis.needs(task.shape.amounts)
        future = self.nodes.future_idle
        for name, most in self._limits().items():
            row = self.nodes.axis.rows[name]
            able = able & (task.shape.amounts.get(name, 0) - future[row] <= most)
        for level in self.pool.levels:
            freed = self.nodes.everything().account(self.pool.freed(level))
            enough = able & self.pool.with_candidates(level)
            for row, amount in needs:
                enough &= future[row] + freed[row] >= amount
            nodes = np.flatnonzero(enough)
            if len(nodes) and self._on_parts(statement, task, wanted, nodes, level):
                return True
        return False

    def _goes_on(self, compared: _Compared, task: Task, wanted: int) -> bool:
        """Returns whether the nodes to compare and their scores are the same as for the previous task."""
        changed = set(self.nodes.log[self._seen :])
        if compared.last is None or changed != {compared.last[0]}:
            return False
        node, score = compared.last
        axis, level = self.nodes.axis, compared.level
        free, freed = self.nodes.future_idle, self.nodes.everything().account(self.pool.freed(level))
        for name, amount in task.shape.amounts.items():
            row = axis.rows[name]
            if amount > 0 and free[row, node] + freed[row, node] < amount:
                return False
        if -float(self.session.placement.scores(task)[node]) != score:
            return False
        (cost,) = self._bounds(task, wanted, [node], level)
        if cost is not None:
            heappush(compared.left, (cost, score, node))
        return True

    def stays(self, node: int) -> bool:
        """Returns whether the node that was taken last is taken again, if one victim there lets in each further task.
        """
        compared = self._compared
        if compared is None or self._exact or compared.last is None or compared.last[0] != node:
            return False
        entry = ((float(compared.level), 1.0, 0.0, 0.0), compared.last[1], node)
        return not compared.left or (entry < compared.left[0] and self._is_best(entry, compared.left[0]))

    def _on_parts(self, statement: Statement, task: Task, wanted: int, nodes: Index, level: int) -> bool:
        scores = self.session.placement.scores(task)
        if len(nodes) <= _ESTIMATED:
            return self._on_part(statement, task, wanted, nodes, scores, level, first=True)
        first = np.sort(nodes[best_heads(scores[nodes], _ESTIMATED)])
        if self._on_part(statement, task, wanted, first, scores, level, first=True):
            return True
        best = nodes[np.argsort(-scores[nodes], kind="stable")]
        parts = (np.sort(best[at : at + _ESTIMATED]) for at in range(_ESTIMATED, len(best), _ESTIMATED))
        return any(self._on_part(statement, task, wanted, part, scores, level, first=False) for part in parts)

    def _on_part(
        self, statement: Statement, task: Task, wanted: int, nodes: Index, scores: Floats, level: int, *, first: bool
    ) -> bool:
        self._exact = len(nodes) <= _MAX_EXACT_NODES
        worth, index = (-scores[nodes]).tolist(), nodes.tolist()
        costs = self._bounds(task, wanted, index, level)
        compared = _Compared(level, [one for one in zip(costs, worth, index, strict=True) if one[0] is not None])  # type: ignore[misc]
        heapify(compared.left)
        found = self._on_best(statement, task, wanted, compared)
        if found and first and level == self.pool.levels[0] and not self._moves_others(task):
            self._compared = compared
        return found

    def _moves_others(self, task: Task) -> bool:
        """Returns whether evictions and placements on one node may change the filters or scores of other nodes."""
        answers = self.session.placement.answers(task)
        return answers.normalises or any(not term.capacity for term in answers.moving_filters())

    def _on_best(self, statement: Statement, task: Task, wanted: int, compared: _Compared) -> bool:
        """Evicts on the cheapest node. Estimates decide which node is tried first; a tried node has an exact cost."""
        left = compared.left
        tried: set[int] = set()
        while left:
            _, score, node = heappop(left)
            start = statement.checkpoint()
            cost = self._evict_on(statement, task, wanted, node, compared.level, self._exact)
            self._known[node] = cost
            if cost is not None:
                found = (cost, score, node)
                if node in tried or not left or self._is_best(found, left[0]):
                    compared.last = node, score
                    return True
                tried.add(node)
                heappush(left, found)
                statement.rollback(start)
            self._seen = len(self.nodes.log)  # every trial has been undone
        return False

    def _is_best(self, found: Entry, other: Entry) -> bool:
        """Returns whether the cost found is no worse than what another node may cost. Estimates are often too low."""
        if self._exact:
            return found <= other
        return found[0][0] <= other[0][0] and found[0][1] <= other[0][1] * _MAX_VICTIM_RATIO

    def _bounds(self, task: Task, wanted: int, nodes: Sequence[int], level: int) -> list[Cost | None]:
        """Returns the cost bound of victims per node; it is cached and recomputed only for nodes that changed."""
        bounds_key = (self.session.signature(task), level, self._exact)
        if self._bounds_key != bounds_key:
            self._remember()
            self._bounds_key = bounds_key
            self._known, self._seen = self.pool.known.get(bounds_key, ({}, len(self.nodes.log)))
        known = self._known
        for node in set(self.nodes.log[self._seen :]):
            known.pop(node, None)
        self._seen = len(self.nodes.log)
        self._remember()
        guess = self.costs.bound if self._exact else self.costs.estimate
        for node in nodes:
            if node not in known:
                known[node] = guess(task, wanted, node, level)
        return [known[node] for node in nodes]

    def _remember(self) -> None:
        """Stores the known costs for the next claims on the same pool."""
        if self._bounds_key is not None:
            self.pool.known[self._bounds_key] = (self._known, self._seen)
