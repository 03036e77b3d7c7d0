"""Exhaustive search for a small gang: which of its pods is placed next, and on which node; bounded by a budget.

Placing pods one after the other by score can end where rules between pods (affinity, anti-affinity, spread) leave no
node for the rest, though another arrangement would do. For a gang of at most 8 pods with at most 16 usable nodes this
module tries the others. The order matters only where a pod can make a node usable for another pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, permutations

import numpy as np

from muster.actions.arrangements import node_for_each, selections
from muster.engine.core.hooks import Bools, Index, NodeSet
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement

BUDGET = 1500  # placements tried for a gang
CYCLE_BUDGET = 6000  # placements tried in a cycle, for all gangs
PODS, NODES = 8, 16  # what counts as small
_PART = 60  # placements tried in one order of the pods before another order is tried
_STRIDE = 101  # from one order to the next; has no factor in common with the number of orders of up to 8 signatures


class SearchBudget:
    """What the searches of a cycle may still try."""

    def __init__(self, session: Session) -> None:
        self.left = CYCLE_BUDGET


class PlacementSearch:
    """The search for nodes for one gang on one node set."""

    def __init__(self, session: Session, job: Job, within: NodeSet | None, queue: Queue | None) -> None:
        """Each pod must be admitted by the queue; without a queue all pods are promised a node, as those of a claim."""
        self.session = session
        self.queue = queue
        self.job = job
        self.within = within
        self._kind = MoveKind.ALLOCATE if queue is not None else MoveKind.PIPELINE
        self.budget = session.shared(SearchBudget)
        self.left = min(BUDGET, self.budget.left)
        self._dead: set[object] = set()

    def selections(self, tasks: Sequence[Task], missing: int) -> Iterator[list[Task]]:
        """Yields the pods that would complete the gang and could fit by their requests; none if it is not small."""
        session = self.session
        examples = {session.signature(task): task for task in tasks}
        if not 0 < missing <= PODS or not any(_depends_on_pods(session, task) for task in examples.values()):
            return
        index = usable_nodes(session, list(examples.values()), self.within)
        if not 0 < len(index) <= NODES:
            return
        self._usable: Bools = np.zeros(len(session.state.nodes), np.bool_)
        self._usable[index] = True
        nodes = NodeSet(index)
        for chosen in selections(session, self.job, tasks, missing):
            # Requests alone already decide about most gangs that do not fit.
            if node_for_each(session, chosen, nodes) is not None:
                yield chosen

    def place(self, statement: Statement, chosen: Sequence[Task]) -> bool:
        """Leaves a placement of all chosen pods in the statement; returns False if none was found."""
        self.statement = statement
        waiting: dict[int, list[Task]] = {}  # by signature
        for task in chosen:
            waiting.setdefault(self.session.signature(task), []).append(task)
        self._dead.clear()
        self._followers = {s for s, some in waiting.items() if _follows(some[0])}
        self._spread = {s for s, some in waiting.items() if some[0].shape.spec.topology_spread_constraints}
        orders = list(permutations(waiting))
        for self._turn in count():
            order = orders[self._turn * _STRIDE % len(orders)] if self._turn else ()
            self._rank = {signature: i for i, signature in enumerate(order)}
            self._allowed = part = min(_PART * (1 + self._turn // 16), self.left)
            found = self._place(waiting) if part else None
            self.left -= part - self._allowed
            self.budget.left -= part - self._allowed
            if found is not None or self.left <= 0:
                return bool(found)
        return False

    def _place(self, waiting: dict[int, list[Task]]) -> bool | None:
        """Returns True with all pods placed, False if that is impossible from here, None if the part is used up.

        A state that is impossible in one order of the pods is impossible in every order.
        """
        if not any(waiting.values()):
            return self.session.pipelined(self.job) if self.queue is None else self.session.ready(self.job)
        made = (m for m in self.statement.moves if m.kind == self._kind)
        state = frozenset(Counter((m.task.signature, m.nodes[0]) for m in made).items())
        if state in self._dead:
            return False
        for signature, nodes in self._choices(waiting):
            task = waiting[signature][-1]
            if self.queue is not None and not self.session.admits(self.queue, task, 1):
                continue
            for node in nodes:
                if self._allowed <= 0:
                    return None
                self._allowed -= 1
                start = self.statement.checkpoint()
                move = self.statement.allocate if self.queue is not None else self.statement.pipeline
                move([waiting[signature].pop()], [node])
                found = self._place(waiting)
                if found:
                    return True
                self.statement.rollback(start)
                waiting[signature].append(task)
                if found is None:
                    return None
        self._dead.add(state)
        return False

    def _choices(self, waiting: dict[int, list[Task]]) -> list[tuple[int, list[int]]]:
        """Returns the signatures of the pods to place next with their nodes; empty if some pod can never be placed.

        A placement never makes a node usable for a pod without affinity and spread constraints. Without spread
        constraints the order of such pods does not matter, so only the one with the fewest nodes is a choice.
        """
        found = [(signature, self._able(some[0])) for signature, some in waiting.items() if some]
        found.sort(key=lambda choice: (self._rank.get(choice[0], 0), len(choice[1])))
        settled = [(signature, nodes) for signature, nodes in found if signature not in self._followers | self._spread]
        if any(not nodes for _, nodes in settled):
            return []
        if self._spread:
            return found
        return settled[:1] + [choice for choice in found if choice[0] in self._followers]

    def _able(self, task: Task) -> list[int]:
        """Returns the nodes that take the task now: the best first, in later turns another one first."""
        key = self.session.placement.answers(task).key(self._kind)
        nodes = np.flatnonzero((key > -np.inf) & self._usable)
        order = nodes[np.argsort(-key[nodes], kind="stable")].tolist()
        turn = self._turn % max(len(order), 1)
        return [*order[turn:], *order[:turn]]


def usable_nodes(session: Session, tasks: Sequence[Task], within: NodeSet | None) -> Index:
    """Returns the nodes of the set that the objects of the nodes allow for some of the pods."""
    usable = np.zeros(len(session.state.nodes), np.bool_)
    for task in {session.signature(task): task for task in tasks}.values():
        usable |= session.placement.answers(task).static
    return np.flatnonzero(usable) if within is None else within.index[usable[within.index]]


def _depends_on_pods(session: Session, task: Task) -> bool:
    """Returns whether a filter other than the capacity depends on the pods of nodes."""
    return any(not term.capacity for term in session.placement.answers(task).moving_filters())


def _follows(task: Task) -> bool:
    affinity = task.shape.spec.affinity
    return affinity is not None and affinity.pod_affinity is not None and bool(affinity.pod_affinity.required)
