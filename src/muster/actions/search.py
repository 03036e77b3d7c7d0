"""Looks for the smallest set of victims that makes room for a job in one of several node sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from muster.actions.groups import Parts
from muster.actions.packed import mixed, node_for_each
from muster.engine.hooks import NodeSet
from muster.engine.jobs import Job, Task
from muster.engine.nodes import Kind
from muster.engine.packing import by_size
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.engine.subgroups import grouped
from muster.engine.victims import Victims

BUDGET = 2000  # simulated placements per job and cycle
_LOOKS = 40_000  # victim sets that are weighed by numbers alone
Found = tuple[NodeSet, list[Task]]


@dataclass(frozen=True, slots=True)
class Offer:
    """A node set, the pods that might go in it, and how many have to go at least."""

    bound: int
    node_set: NodeSet
    here: list[Task]


class Search:
    """One job's claim. Nothing of it stands before `carry_out`."""

    def __init__(self, session: Session, victims: Victims, job: Job, tasks: Sequence[Task], *, quota: bool) -> None:
        self.session = session
        self.victims = victims
        self.job = job
        self.quota = quota  # must the queue admit what is claimed?
        self.nodes = session.state.nodes
        kinds = [session.signature(task) for task in tasks]
        requests = [task.shape.request(self.nodes.axis) for task in tasks]
        order = by_size(requests, kinds, self.nodes.alloc.sum(axis=1))
        self.tasks = [tasks[i] for i in order]  # the largest first
        self.mixed = mixed(session, tasks)
        self.claimer = tasks[0]
        # The pods that must find room; of different ones the smallest, so that no bound is too high.
        self.needed = self.tasks[-max(job.min_available - job.ready - job.waiting, 1) :]
        self.root = grouped(job)
        self.cut_off = False
        self._placed = 0  # pods that found room in the last simulation
        self._offers: list[Offer] = []
        self._left = BUDGET
        self._looks = _LOOKS

    def smallest(self, sets: Sequence[NodeSet], pool: Sequence[Task]) -> Found | None:
        """The set with the fewest victims, the earlier one where two have as few."""
        on: dict[int, list[Task]] = {}
        for task in pool:
            on.setdefault(task.node, []).append(task)
        self._offers = []
        for node_set in sets:
            here = [task for node in node_set.index.tolist() for task in on.get(node, ())]
            bound = self._bound(node_set, here)
            if bound is not None:
                self._offers.append(Offer(bound, node_set, here))
        best: Found | None = None
        for offer in sorted(self._offers, key=lambda offer: offer.bound):
            if best is not None and offer.bound >= len(best[1]):
                break
            found = self._by_node(offer) if self.root is None else None
            found = found if found is not None else self._by_order(offer)
            if found is not None and (best is None or len(found) < len(best[1])):
                best = offer.node_set, found
        return self._fewer(best)

    # --- simulation

    def holds(self, node_set: NodeSet, gone: Sequence[Task]) -> bool:
        """Would the job find room in the set if these were gone?"""
        self._left -= 1
        statement = self.session.statement()
        for victim in gone:
            statement.evict(victim, self.claimer, self.victims.rule)
        self._place(statement, node_set)
        held = self.session.pipelined(self.job)
        self._placed = sum(len(move.tasks) for move in statement.moves if move.kind == Kind.PIPELINE)
        statement.discard()
        return held

    def carry_out(self, node_set: NodeSet, gone: Sequence[Task]) -> None:
        """The same for good; each victim goes for the first pod that gets its node."""
        trial = self.session.statement()
        for victim in gone:
            trial.evict(victim, self.claimer, self.victims.rule)
        self._place(trial, node_set)
        for_whom: dict[int, Task] = {}
        for move in trial.moves:
            if move.kind == Kind.PIPELINE:
                for task, node in zip(move.tasks, move.nodes, strict=True):
                    for_whom.setdefault(node, task)
        trial.discard()
        statement = self.session.statement()
        for victim in gone:
            statement.evict(victim, for_whom.get(victim.node, self.claimer), self.victims.rule)
        self._place(statement, node_set)
        statement.commit()

    def _place(self, statement: Statement, node_set: NodeSet) -> None:
        session, job = self.session, self.job
        assert job.queue is not None
        if self.root is not None:
            parts = Parts(session, statement, job.queue, job, self.root)
            parts.promised = True
            parts.place(list(self.tasks), node_set)
            return
        start = statement.checkpoint()
        self._in_order(statement, node_set)
        if session.pipelined(job) or not self.mixed or len(self.needed) < len(self.tasks):
            return
        statement.rollback(start)
        found = node_for_each(session, self.tasks, node_set)
        for task, alone in zip(self.tasks, found or (), strict=False):
            if (self.quota and not session.admits(job.queue, task, 1)) or not session.placement.promise(
                statement, [task], alone
            ):
                return

    def _in_order(self, statement: Statement, node_set: NodeSet) -> None:
        session, job = self.session, self.job
        assert job.queue is not None
        at = 0
        while at < len(self.tasks) and not session.pipelined(job):
            signature = session.signature(self.tasks[at])
            most = at + max(job.min_available - job.ready - job.waiting, 1)
            run = [task for task in self.tasks[at:most] if session.signature(task) == signature]
            if self.quota and session.admits(job.queue, run[0], len(run)) < len(run):
                return
            if session.placement.promise(statement, run, node_set) < len(run):
                return
            at += len(run)

    # --- answers

    def _by_node(self, offer: Offer) -> list[Task] | None:
        """Node by node: the one where the fewest victims make room for the most pods."""
        gone: list[Task] = []
        while not self.holds(offer.node_set, gone):
            if self._left <= 0:
                self.cut_off = True
                return None
            out = {id(task) for task in gone}
            mine: dict[int, list[Task]] = {}
            for task in offer.here:
                if id(task) not in out:
                    mine.setdefault(task.node, []).append(task)
            wanted = max(len(self.needed) - self._placed, 1)
            best: tuple[float, int, list[Task]] | None = None
            for node, left in sorted(mine.items()):
                for cost, more in self._on_node(node, left, gone, wanted):
                    if best is None or (cost, -len(more)) < best[:2]:
                        best = cost, -len(more), more
            if best is None:
                return None
            gone += best[2]
        return self._spared(offer, gone) if self._given_up(gone) else None

    def _on_node(
        self, node: int, left: list[Task], gone: Sequence[Task], wanted: int
    ) -> Iterator[tuple[float, list[Task]]]:
        """(victims per pod gained, victims): the largest first, one more at a time."""
        axis, size = self.nodes.axis, self.nodes.axis.size
        request = self.tasks[0].shape.request(axis)
        free = self.nodes.rows[size : 2 * size, node].copy()
        for victim in gone:
            if victim.node == node:
                free += victim.shape.request(axis)
        before = _copies(free, request)
        given = {id(task) for task in self.victims.chosen(self.claimer, [*gone, *left])}
        ordered = [victim for victim in left if id(victim) in given]
        ordered.sort(key=lambda v: (-float((v.shape.request(axis) * (request > 0)).max()), v.priority, v.key))
        for count, victim in enumerate(ordered, start=1):
            free += victim.shape.request(axis)
            gained = min(_copies(free, request) - before, wanted)
            if gained > 0:
                yield count / gained, ordered[:count]
            if gained == wanted:
                return

    def _by_order(self, offer: Offer) -> list[Task] | None:
        """In victim order, twice as many each time, until it is enough."""
        given = self.victims.chosen(self.claimer, offer.here)
        count = 0
        while not self.holds(offer.node_set, given[:count]):
            if count >= len(given):
                return None
            if self._left <= 0:
                self.cut_off = True
                return None
            count = min(max(2 * count, 1), len(given))
        return self._spared(offer, given[:count])

    def _given_up(self, gone: Sequence[Task]) -> bool:
        """Do the plugins give up all of these together?"""
        return not gone or len(self.victims.chosen(self.claimer, gone)) == len(gone)

    def _spared(self, offer: Offer, gone: list[Task]) -> list[Task]:
        """Spare victims, highest priority first, as long as it stays enough without them."""
        for victim in sorted(gone, key=lambda t: (-t.priority, t.key)):
            if len(gone) <= offer.bound or self._left <= 0:
                break
            fewer = [task for task in gone if task is not victim]
            if self.holds(offer.node_set, fewer):
                gone = fewer
        return gone

    def _fewer(self, best: Found | None) -> Found | None:
        """Every smaller victim set of every node set, as long as the budget lasts."""
        most = len(best[1]) if best is not None else max((len(offer.here) for offer in self._offers), default=-1) + 1
        for size in range(min((offer.bound for offer in self._offers), default=most), most):
            for offer in self._offers:
                if offer.bound > size:
                    continue
                for gone in combinations(offer.here, size):
                    self._looks -= 1
                    if self._left <= 0 or self._looks <= 0:
                        self.cut_off = True
                        return best
                    if self._could(offer.node_set, gone) and self._given_up(gone) and self.holds(offer.node_set, gone):
                        return offer.node_set, list(gone)
        return best

    # --- numbers alone

    def _bound(self, node_set: NodeSet, here: Sequence[Task]) -> int | None:
        """At least so many have to go, by the sums of each resource; None: it is not enough if all go."""
        axis, size = self.nodes.axis, self.nodes.axis.size
        free = np.maximum(self.nodes.rows[size : 2 * size, node_set.index], 0).sum(axis=1)
        asked = np.zeros(axis.size, np.int64)
        for task in self.needed:
            asked += task.shape.request(axis)
        least = 0
        shapes = Counter(task.shape for task in here)
        for row in np.flatnonzero(asked > free).tolist():
            short, count = int(asked[row] - free[row]), 0
            for amount, n in sorted(((int(shape.request(axis)[row]), n) for shape, n in shapes.items()), reverse=True):
                took = min(n, -(-short // amount)) if amount > 0 else 0
                short, count = short - took * amount, count + took
                if short <= 0:
                    break
            if short > 0:
                return None
            least = max(least, count)
        return least

    def _could(self, node_set: NodeSet, gone: Sequence[Task]) -> bool:
        """Is there room by numbers, if pods are all of one kind?"""
        if self.mixed:
            return True
        axis, size = self.nodes.axis, self.nodes.axis.size
        request = self.tasks[0].shape.request(axis)
        asked = request > 0
        free = self.nodes.rows[size : 2 * size, node_set.index].copy()
        for victim in gone:
            free[:, np.searchsorted(node_set.index, victim.node)] += victim.shape.request(axis)
        copies = np.maximum((free[asked] // request[asked][:, None]).min(axis=0), 0)
        return int(copies.sum()) >= len(self.needed)


def _copies(free: NDArray[np.int64], request: NDArray[np.int64]) -> int:
    asked = request > 0
    return max(int((free[asked] // request[asked]).min()), 0)
