"""Of the nodes where evictions could let a pod in, the one whose victims cost least.

What victims on a node cost is estimated first, and known after they were evicted there. Both are kept from pod to pod
and from claim to claim, and computed anew for nodes that changed.
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

_EXACT = 16  # of so many nodes the cheapest is found for certain
_TOLERATED = 1.25  # of more, one whose victims are at most so many times those that another may need
_ESTIMATED = 64  # nodes that are compared with each other; of more, those with the best scores first

Entry = tuple[Cost, float, int]  # what victims cost at least or probably, the score (smaller is better), the node
# Evicts on a node at a level of priority, by all orders of the units or by one; what it cost, or None.
EvictOn = Callable[[Statement, Task, int, int, int, bool], Cost | None]


@dataclass(slots=True)
class _Compared:
    """Nodes that are compared with each other. The next pod finds all but the node of the last one as they were."""

    level: int
    left: list[Entry] = field(default_factory=list)  # a heap
    last: tuple[int, float] | None = None  # the node that was taken last, and its score


class CheapestVictims:
    """The choices of one attempt of a claim."""

    def __init__(
        self, session: Session, pool: VictimPool, costs: VictimCosts, evict_on: EvictOn,
        limits: Callable[[], Mapping[str, float]],
    ) -> None:  # fmt: skip
        """`limits`: what all further victims together may hold at most, where that is known."""
        self.session = session
        self.pool = pool
        self.costs = costs
        self.nodes = session.state.nodes
        self._evict_on = evict_on
        self._limits = limits
        self._kind: tuple[int, int, bool] | None = None
        self._known: dict[int, Cost | None] = {}  # node → what victims cost there, for tasks of that kind
        self._seen = 0
        self._exact = True
        self._compared: _Compared | None = None

    def begin(self) -> None:
        """Another run of equal tasks follows."""
        self._compared = None

    def make_way(self, statement: Statement, task: Task, wanted: int, able: Bools) -> bool:
        """Evict what costs least, so that an able node takes one more such task; False: nothing is enough."""
        compared, self._compared = self._compared, None
        goes_on = compared is not None and self._goes_on(compared, task, wanted)
        if compared is not None and goes_on and self._on_best(statement, task, wanted, compared):
            self._compared = compared
            return True
        request = task.shape.request(self.nodes.axis)
        rows = np.flatnonzero(request > 0).tolist()
        future = self.nodes.future_idle
        for name, most in self._limits().items():
            row = self.nodes.axis.rows[name]
            able = able & (request[row] - future[row] <= most)
        for level in self.pool.levels:
            freed = self.pool.freed(level)
            enough = able & self.pool.anybody(level)
            for row in rows:
                enough &= future[row] + freed[row] >= request[row]
            nodes = np.flatnonzero(enough)
            if len(nodes) and self._on_parts(statement, task, wanted, nodes, level):
                return True
        return False

    def _goes_on(self, compared: _Compared, task: Task, wanted: int) -> bool:
        """Are the nodes to be compared the same as for the task before, with the same scores?"""
        changed = set(self.nodes.log[self._seen :])
        if compared.last is None or changed != {compared.last[0]}:
            return False
        node, score = compared.last
        axis, level = self.nodes.axis, compared.level
        free, freed = self.nodes.future_idle[:, node], self.pool.freed(level)[:, node]
        for name, amount in task.shape.amounts.items():
            row = axis.rows[name]
            if amount > 0 and free[row] + freed[row] < amount:
                return False
        if -float(self.session.placement.scores(task)[node]) != score:
            return False
        (cost,) = self._bounds(task, wanted, [node], level)
        if cost is not None:
            heappush(compared.left, (cost, score, node))
        return True

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
        self._exact = len(nodes) <= _EXACT
        worth, index = (-scores[nodes]).tolist(), nodes.tolist()
        costs = self._bounds(task, wanted, index, level)
        compared = _Compared(level, [one for one in zip(costs, worth, index, strict=True) if one[0] is not None])  # type: ignore[misc]
        heapify(compared.left)
        found = self._on_best(statement, task, wanted, compared)
        if found and first and level == self.pool.levels[0] and not self._moves_others(task):
            self._compared = compared
        return found

    def _moves_others(self, task: Task) -> bool:
        """May evictions and placements on one node change which others are able, or their scores?"""
        answers = self.session.placement.answers(task)
        return answers.normalises or any(not term.capacity for term in answers.moving_filters())

    def _on_best(self, statement: Statement, task: Task, wanted: int, compared: _Compared) -> bool:
        """Evict on the node that costs least. Estimates say where to look first, what was tried is known."""
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
            self._seen = len(self.nodes.log)  # whatever was tried is undone
        return False

    def _is_best(self, found: Entry, other: Entry) -> bool:
        """Is what was found no worse than what another node may cost? Estimates are often too low."""
        if self._exact:
            return found <= other
        return found[0][0] <= other[0][0] and found[0][1] <= other[0][1] * _TOLERATED

    def _bounds(self, task: Task, wanted: int, nodes: Sequence[int], level: int) -> list[Cost | None]:
        """What victims cost on each of the nodes; kept from step to step, and computed anew where something changed."""
        kind = (self.session.signature(task), level, self._exact)
        if self._kind != kind:
            self._remember()
            self._kind = kind
            self._known, self._seen = self.pool.known.get(kind, ({}, len(self.nodes.log)))
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
        """What was learned serves the next claims on the same pool, too."""
        if self._kind is not None:
            self.pool.known[self._kind] = (self._known, self._seen)
