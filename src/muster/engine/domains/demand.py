"""What the pods of an attempt need of a domain, and which domains could give it: necessary conditions only.

Of the n pods to place, m must be placed (the minimum); the others are optional. A domain is refused if for
some resource even the m smallest requests exceed what is free in it, or if for pods of some signature the number that
cannot be done without exceeds the copies its nodes could take. No order of placing could fill such a domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import itemgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.engine.core.axis import SHARED
from muster.engine.core.hooks import Bools, Floats, Index
from muster.engine.core.jobs import Status, Task
from muster.engine.core.resources import PODS
from muster.engine.core.session import Session
from muster.engine.domains.domain_capacity import FREE, NOW, DomainCapacity, copies
from muster.engine.domains.domain_tree import Cut, DomainSums
from muster.model.quantity import display

Vector = NDArray[np.int64]
_GONE = (Status.RELEASING, Status.FAILED, Status.UNKNOWN)
_MOST_SIGNATURES = 16  # of pods that are counted; more would be more work, not more right


class Need(Struct, frozen=True):
    """Lower bounds of the resources of a number of the pods."""

    amounts: list[tuple[int, int]]  # (key of the resource axis, amount)
    counts: list[tuple[int, int]]  # (position in `Demand.by_signature`, how many of these pods at least)


def unplaced(tasks: Iterable[Task], minimum: int) -> tuple[list[Task], int]:
    """Returns the pods that wait for a node, and how many of them must get one beside those that have it."""
    pending, placed = [], 0
    for task in tasks:
        if task.status == Status.PENDING:
            pending.append(task)
        elif task.status not in _GONE:
            placed += 1
    return pending, minimum - placed


class Demand:
    def __init__(self, session: Session, tasks: Sequence[Task], need: int) -> None:
        self.count, self.need = len(tasks), min(need, len(tasks))
        self.axis = session.state.axis
        grouped: dict[int, list[Task]] = {}
        for task in tasks:
            grouped.setdefault(session.signature(task), []).append(task)
        self.by_signature = [(some[0], len(some)) for some in grouped.values()]
        self.all = self._need(self.count)
        self.least = self.all if self.need == self.count else self._need(self.need)

    def _need(self, of: int) -> Need:
        requests = [(task.shape.amounts, n) for task, n in self.by_signature]
        amounts = []
        keys = {name: self.axis.rows[name] for request, _ in requests for name in request}
        for name, key in sorted(keys.items(), key=itemgetter(1)):
            here = sorted((request.get(name, 0), n) for request, n in requests)
            total, left = 0, of
            for amount, n in here:
                total += amount * min(n, left)
                left -= min(n, left)
            if total > 0:
                amounts.append((key, total))
        counts = [(k, n - (self.count - of)) for k, (_, n) in enumerate(self.by_signature[:_MOST_SIGNATURES])]
        return Need(amounts, [(k, least) for k, least in counts if least > 0])


    def lacking(self, capacity: DomainCapacity, within: Bools) -> tuple[Task, int, int] | None:
        """Returns the first pod of whose signature these nodes cannot take enough, how many fit, and how many must."""
        for k, least in self.least.counts:
            task = self.by_signature[k][0]
            able = int(capacity.copies(task).values()[FREE][within].sum())
            if able < least:
                return task, able, least
        return None


class Demands:
    """The demands of one cycle: groups of equally many equal pods have the same."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[int, int, int], Demand] = {}

    def of(self, tasks: Sequence[Task], need: int) -> Demand:
        if {task.shape for task in tasks} != {self._session.equal_shape(tasks[0])}:
            return Demand(self._session, tasks, need)
        same = (tasks[0].signature, len(tasks), need)
        found = self._known.get(same)
        if found is None:
            found = self._known[same] = Demand(self._session, tasks, need)
        return found


class Counts:
    """What the domains of a cut have, per level."""

    def __init__(self, capacity: DomainCapacity, cut: Cut, demand: Demand, freed: Index | None) -> None:
        self.cut = cut
        self.demand = demand
        self._size = demand.axis.size
        self._promised = capacity.nodes.pipelined > 0
        examples = [task for task, _ in demand.by_signature[:_MOST_SIGNATURES]]
        # What is free of resources that few nodes have, by key: as `_free`, in two rows.
        self._shared = {key: capacity.shared(key).sums(cut) for key, _ in demand.all.amounts if key >= SHARED}
        if freed is None:
            self._free = capacity.free().sums(cut)
            self._copies = [capacity.copies(task).sums(cut) for task in examples]
        else:
            self._free, self._copies = self._hypothetical(capacity, freed, examples)

    def _hypothetical(
        self, capacity: DomainCapacity, freed: Index, examples: Sequence[Task]
    ) -> tuple[DomainSums, list[DomainSums]]:
        """Returns the same once everything that could be evicted is gone."""
        cut, size = self.cut, self._size
        rows = capacity.nodes.free[:, cut.order]
        rows[size:] += freed[:, cut.order]
        if self._shared:
            whole = capacity.nodes.free.copy()
            whole[size:] += freed
            for key in self._shared:
                self._shared[key] = cut.sums(cut.count(capacity.shared_rows(key, whole)[:, cut.order]))
        counted = []
        for task in examples:
            usable = capacity.session.placement.answers(task).static[cut.order]
            counted.append(cut.sums(cut.count(copies(rows, task.shape.request(self.demand.axis)) * usable)))
        return cut.sums(cut.count(np.maximum(rows, 0))), counted

    def fits(self, level: int, need: Need, when: int = FREE) -> Bools:
        """Returns the segments of a level that could have the capacity for the need."""
        fits: Bools = self.cut.tiers[level].real.copy()
        alone = len(self.demand.by_signature) == 1
        for key, amount in need.amounts:
            # Where enough copies of the only signature fit, there is enough of every resource with its own row.
            if not alone or key >= SHARED:
                fits &= self._free_of(key, level, when) >= amount
        for k, least in need.counts:
            fits &= self._copies[k][level][when] >= least
        return fits

    def _free_of(self, key: int, level: int, when: int = FREE) -> Index:
        """Returns what the segments of a level have free of a resource."""
        row = self._size + key if when == FREE else key
        found: Index = self._shared[key][level][when] if key >= SHARED else self._free[level][row]
        return found

    @property
    def releasing(self) -> bool:
        """Returns whether anything is being released, so that the free capacity now and later differ."""
        root = self._free[0]
        return self._promised or bool((root[: self._size] != root[self._size :]).any())

    def now(self, level: int, need: Need) -> Bools:
        return self.fits(level, need, NOW)

    def ratio(self, level: int) -> Floats:
        """Returns requested to free of the scarcest resource: the larger, the fuller the domain would be."""
        start, end = (0, *self.cut.ends)[level : level + 2]
        found: Floats = self._ratios[start:end]
        return found

    @cached_property
    def _ratios(self) -> Floats:
        """Returns the same of the segments of all levels."""
        asked = [(key, amount) for key, amount in self.demand.all.amounts if key != PODS]
        own = [(self._size + key, amount) for key, amount in asked if key < SHARED]
        free = self._free.everywhere.take([row for row, _ in own], axis=0)
        amounts = [amount for _, amount in own]
        if len(own) < len(asked):
            free = np.vstack([free, *(shared.everywhere[FREE] for shared in self._shared.values())])
            amounts += [amount for key, amount in asked if key >= SHARED]
        # Where there is none the ratio is practically infinite; KAI uses 1000, and nothing fits there, either.
        ratios = np.array(amounts, np.int64)[:, None] / np.maximum(free, 1)
        highest: Floats = np.maximum.reduce(ratios, axis=0, initial=0.0)
        return highest

    def pods(self, level: int) -> Index | None:
        """Returns how many of the pods each segment could take, if they are all of one signature."""
        return self._copies[0][level][FREE] if len(self.demand.by_signature) == 1 else None

    def capacity(self, level: int, segment: int) -> tuple[int, ...]:
        """Returns the key of the largest segment: copies of each pod that it must take, then what is free in it."""
        need = self.demand.least
        return (
            *(int(self._copies[k][level][FREE, segment]) for k, _ in need.counts),
            *(int(self._free_of(key, level)[segment]) for key, _ in need.amounts),
        )

    def why_not(self, level: int, segment: int) -> str:
        """Returns which condition refuses a segment, with its numbers."""
        need = self.demand.least
        for k, least in need.counts:
            able = int(self._copies[k][level][FREE, segment])
            if able < least:
                like = f" like {self.demand.by_signature[k][0].key}" if len(self.demand.by_signature) > 1 else ""
                return f"has room for {able} of {least} pods{like}"
        for key, amount in need.amounts:
            have = int(self._free_of(key, level)[segment])
            if have < amount:
                name = self.demand.axis.name(key)
                return f"has {display(name, have)} of {name} free, the pods need {display(name, amount)}"
        return ""
