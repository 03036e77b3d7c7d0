"""Exhaustive search for a small claim: which pods, on which nodes, with which victims; bounded by a budget.

Choosing the cheapest victims node by node can fail where another choice would do: budgets, minimums and shares limit
what may be evicted together, and pods of different sizes fit in one order and not in another. For a small claim this
module tries the other choices as well. If the claim is not small, or the budget runs out, the claim fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from muster.actions.arrangements import selections
from muster.actions.evicting_placement import EvictingPlacement, Make
from muster.actions.placement_search import PlacementSearch, usable_nodes
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.resources import asked
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.evictions.claim import RECLAIM, request_of

BUDGET = 4000  # evictions and placements tried
PODS, NODES, VICTIMS = 8, 16, 48  # what counts as small


class ClaimSearch:
    def __init__(
        self, session: Session, evicting: EvictingPlacement, statement: Statement, within: NodeSet | None
    ) -> None:
        self.session = session
        self.evicting = evicting
        self.statement = statement
        self.within = within
        self.nodes: list[int] = []  # those that the objects of the nodes allow for some of the pods
        self.left = BUDGET
        self._seen: set[object] = set()

    def solve(self, tasks: Sequence[Task], gang: bool) -> bool:
        """Leaves a solution in the statement; returns False if none was found."""
        evicting = self.evicting
        if len(evicting.claim.tasks) > PODS:
            return False
        usable = usable_nodes(self.session, tasks, self.within)
        if not 0 < len(usable) <= NODES:
            return False
        self.nodes = usable.tolist()
        if self._victims() > VICTIMS:
            return False
        job, count = evicting.claim.job, len(evicting.claim.tasks)
        for chosen in selections(self.session, job, tasks, count) if gang else [list(tasks[:1])]:
            if evicting.claim.rule == RECLAIM:
                request = dict(asked(request_of(chosen)))
                # What the queues keep depends on the claimed resources.
                same = request.keys() == evicting.claim.request.keys()
                if not same or not self.session.deserves(evicting.claim.queue, request):
                    continue
            self._seen.clear()
            if self._place(chosen, 0, 0):
                evicting.reprieve(self.statement)
                return True
        return gang and evicting.claim.rule != RECLAIM and self._on_cleared_nodes(tasks, count)

    def _victims(self) -> int:
        """Returns how many possible victims the nodes have."""
        level = self.evicting.pool.levels[-1]
        return sum(len(self.evicting.pool.here(node, level)) for node in self.nodes)

    def _on_cleared_nodes(self, tasks: Sequence[Task], count: int) -> bool:
        """Evicts whatever may be evicted on the nodes, searches for a placement, and gives back what is not needed.

        The search above places the pods in one order. Where rules between pods make other orders necessary, it is
        enough to know that the pods fit at all. What a queue gives in a reclaim is limited, so it is not tried there.
        """
        evicting, statement = self.evicting, self.statement
        search = PlacementSearch(self.session, evicting.claim.job, NodeSet(np.array(self.nodes)), None)
        here = set(self.nodes)
        for make in evicting.everything():
            unit = make()
            if unit is None or here.isdisjoint(task.node for task in unit.tasks):
                continue
            if evicting.units.protected(evicting.claim, unit) is None:
                evicting.evict(statement, unit, evicting.claim.tasks[0])
        start = statement.checkpoint()
        for chosen in search.selections(tasks, count):
            if search.place(statement, chosen) and self._settled():
                evicting.reprieve(statement)
                return True
            statement.rollback(start)
        return False

    def _place(self, tasks: Sequence[Task], at: int, first: int) -> bool:
        """Places the tasks from `at` on. An equal task goes to no earlier node than the task before it."""
        session, statement = self.session, self.statement
        if at == len(tasks):
            return session.pipelined(self.evicting.claim.job) and self._settled()
        task = tasks[at]
        state = (at, first, self._state())
        if state in self._seen:
            return False
        self._seen.add(state)
        follows = at + 1 < len(tasks) and session.signature(tasks[at + 1]) == session.signature(task)
        able = session.placement.answers(task).static
        for position in range(first, len(self.nodes)):
            node = self.nodes[position]
            if not able[node]:
                continue
            for _ in self._covers(task, node):
                start = statement.checkpoint()
                statement.pipeline([task], [node])
                if self._place(tasks, at + 1, position if follows else 0):
                    return True
                statement.rollback(start)
                if self.left <= 0:
                    return False
        return False

    def _state(self) -> object:
        """Returns what later choices depend on: the evicted pods, and what was placed where."""
        moves = self.statement.moves
        gone = frozenset(m.task.key for m in moves if m.kind == MoveKind.EVICT)
        placed = Counter((m.task.signature, m.nodes[0]) for m in moves if m.kind == MoveKind.PIPELINE)
        return gone, frozenset(placed.items())

    def _covers(self, task: Task, node: int) -> Iterator[None]:
        """Yields once for each set of victims on the node that lets the task in, while that set is evicted."""
        level = self.evicting.pool.levels[-1]
        order = next(iter(self.evicting.orders(node, task, level)))
        yield from self._subsets(order, 0, lambda: self.evicting.enough(task, node), task)

    def _subsets(
        self, order: Sequence[Make], first: int, enough: Callable[[], bool], by: Task
    ) -> Iterator[None]:
        if enough():
            yield
            return
        for at in range(first, len(order)):
            if self.left <= 0:
                return
            unit = order[at]()
            if unit is None or self.evicting.units.protected(self.evicting.claim, unit) is not None:
                continue
            self.left -= 1
            start = self.statement.checkpoint()
            self.evicting.evict(self.statement, unit, by)
            yield from self._subsets(order, at + 1, enough, by)
            self.statement.rollback(start)

    def _settled(self) -> bool:
        """Returns whether the queue is within its limit, after further evictions if needed."""
        evicting = self.evicting
        if evicting.settle_quota(self.statement):
            return True
        for _ in self._subsets(evicting.relieving(), 0, lambda: not evicting.overflow(), evicting.claim.tasks[0]):
            return True
        return False
