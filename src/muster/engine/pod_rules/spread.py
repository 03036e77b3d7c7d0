"""Topology spread constraints over all nodes at once: per domain a count, taken by each node's code.

kube-scheduler counts on nodes that have every constraint's label and that the constraint's policies include; a domain
without such a node does not count, though a node may be in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.engine.core.hooks import Batch, Bools
from muster.engine.core.jobs import Task
from muster.engine.core.values import ClassKey
from muster.engine.pod_rules.affinity import PodClass, PodIndex
from muster.engine.pod_rules.rules import HOSTNAME, SpreadConstraint
from muster.engine.pod_rules.tally import LabelDomains, Tally

LABEL, SKEW = 1, 2  # why a node is refused: it misses the label; its domain has too many


class SpreadCounts(Struct, frozen=True):
    """One constraint with what it counts. `tally` None: its selector counts no pod."""

    constraint: SpreadConstraint
    domains: LabelDomains  # of all nodes
    tally: Tally | None  # over the nodes that count
    present: NDArray[np.int64]  # the domains with a node that counts

    def refusals(self, me: int) -> NDArray[np.uint16]:
        """Returns per domain 0, or why one more pod may not go there; `me`: 1 if the pod counts itself."""
        c = self.constraint
        table = np.zeros(self.domains.absent + 1, np.uint16)
        if self.tally is None:
            if me > c.max_skew:
                table[:] = SKEW
        else:
            counts = self.tally.counts
            # kube-scheduler: with fewer domains than minDomains the least is taken to be 0.
            least = int(counts[self.present].min()) if len(self.present) >= max(c.min_domains, 1) else 0
            table[counts > c.max_skew + least - me] = SKEW
        table[-1] = LABEL
        return table


def batch_of(pod_class: PodClass, spreadings: Sequence[SpreadCounts]) -> Batch:
    """Pods that count themselves change the answer for the next one."""
    own = any(s.tally is not None and pod_class.matches(s.constraint.selection) for s in spreadings)
    return Batch.SINGLE if own else Batch.COLUMNS


def class_key_of_domains(spreadings: Sequence[SpreadCounts]) -> ClassKey:
    """Nodes differ by their domains: a constraint that must hold compares the counts of all of them."""
    tallies = [s.tally for s in spreadings if s.tally is not None]
    codes = tuple(s.domains.codes for s in spreadings)
    return ClassKey(codes, generation=lambda: tuple([tally.version for tally in tallies]))


class SpreadIndex:
    """The spread constraints of pods and their current counts, made once per cycle and set of rules."""

    def __init__(self, index: PodIndex) -> None:
        self.index = index
        self._hard: dict[int, list[SpreadCounts]] = {}
        self._soft: dict[int, list[SpreadCounts]] = {}
        self._scored: dict[int, Bools] = {}
        self._codes: dict[bytes, NDArray[np.int64]] = {}
        self._every: Bools = np.ones(len(index.nodes), np.bool_)

    def hard(self, task: Task, pod_class: PodClass) -> list[SpreadCounts]:
        """Returns the constraints that must hold."""
        found = self._hard.get(pod_class.rules.id)
        if found is None:
            labelled = self._labelled(pod_class.rules.hard)
            found = [self._spreading(task, c, labelled) for c in pod_class.rules.hard]
            self._hard[pod_class.rules.id] = found
        return found

    def soft(self, task: Task, pod_class: PodClass) -> list[SpreadCounts]:
        """Returns the constraints that are scored. By hostname all nodes count for themselves, eligible or not."""
        found = self._soft.get(pod_class.rules.id)
        if found is None:
            labelled = self.scored(pod_class)
            found = [
                self._by_node(c) if c.key == HOSTNAME else self._spreading(task, c, labelled)
                for c in pod_class.rules.soft
            ]
            self._soft[pod_class.rules.id] = found
        return found

    def scored(self, pod_class: PodClass) -> Bools:
        """Returns the nodes that are scored. kube-scheduler: its default constraints do not require their labels."""
        found = self._scored.get(pod_class.rules.id)
        if found is None:
            found = self._labelled(() if pod_class.rules.by_default else pod_class.rules.soft)
            self._scored[pod_class.rules.id] = found
        return found

    def class_key(self, pod_class: PodClass, spreadings: Sequence[SpreadCounts]) -> ClassKey:
        """Scored nodes differ by their domains and, by hostname, by what is on the node itself."""
        scored = self.scored(pod_class)
        codes = [] if scored.all() else [self._code(scored)]
        counts: list[Tally] = []
        wide: list[Tally] = []
        for s in spreadings:
            if s.constraint.key != HOSTNAME:
                codes.append(s.domains.codes)
                wide += [] if s.tally is None else [s.tally]
            else:
                codes += [] if s.domains.labelled.all() else [s.domains.labelled_codes]
                counts += [] if s.tally is None else [s.tally]
        return ClassKey(tuple(codes), tuple(counts), lambda: tuple([tally.version for tally in wide]))

    def _code(self, mask: Bools) -> NDArray[np.int64]:
        """Returns one and the same array for equal masks."""
        return self._codes.setdefault(mask.tobytes(), mask.astype(np.int64))

    def _labelled(self, constraints: Sequence[SpreadConstraint]) -> Bools:
        every = self._every
        for c in constraints:
            every = every & self.index.domains(c.key).labelled
        return every

    def _spreading(self, task: Task, c: SpreadConstraint, labelled: Bools) -> SpreadCounts:
        eligible = labelled
        if c.honours_affinity:
            eligible = eligible & self.index.required(task)
        if c.honours_taints:
            eligible = eligible & self.index.tolerated(task)
        domains = self.index.domains(c.key)
        codes = domains.codes[eligible]
        tally = None
        if c.selection is not None and c.counted:
            tally = self.index.matching(c.selection, c.key, eligible)
        return SpreadCounts(c, domains, tally, np.unique(codes[codes != domains.absent]))

    def _by_node(self, c: SpreadConstraint) -> SpreadCounts:
        tally = None
        if c.selection is not None and c.counted:
            tally = self.index.matching(c.selection, None)
        return SpreadCounts(c, self.index.domains(c.key), tally, np.empty(0, np.int64))
