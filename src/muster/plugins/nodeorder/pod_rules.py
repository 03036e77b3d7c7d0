"""Scores by the pods already on nodes: preferred pod affinity, and soft topology spread constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Batch, Bools, Floats, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.static import columns
from muster.engine.core.values import ClassKey
from muster.engine.pod_rules.affinity import PodClass, PodIndex
from muster.engine.pod_rules.rules import HOSTNAME
from muster.engine.pod_rules.spread import SpreadCounts, SpreadIndex, batch_of
from muster.engine.pod_rules.tally import Tally, class_key_of_tallies
from muster.plugins.nodeorder.weighted import Weighted

Numbers = NDArray[np.int64]
_MAX_TABLE_SIZE = 4096  # combinations of domains and counts


class PodAffinity(Weighted):
    """Scores preferred pod affinity: that of the incoming pod, and that of the pods on nodes towards it.

    Each pod that matches a preferred term of the incoming pod adds the term's weight to its topology domain
    (anti-affinity takes it away); so does each pod whose own preferred term matches the incoming pod. A pod whose
    required affinity term matches the incoming pod adds kube-scheduler's hardPodAffinityWeight: 1 there, 0 in Volcano
    and here.
    """

    term = "podaffinity"
    scope = Scope.CLUSTER
    normalised = True

    def __init__(self, weight: int, index: PodIndex, hard: int = 0) -> None:
        super().__init__(weight)
        self._index = index
        self._hard = hard
        self._drawn: dict[int, tuple[Batch, list[tuple[Tally, int]]]] = {}

    def _ask(self, task: Task) -> tuple[Batch, list[tuple[Tally, int]]]:
        """Returns how a placement of such a task changes the term, and the weighted tallies that attract the task."""
        index = self._index
        if index.has_no_rules:
            return Batch.SKIP, []
        pod_class = index.pod_class(task)
        found = self._drawn.get(pod_class.id)
        if found is None:
            drawn = [(index.matching(selection, key), weight) for selection, key, weight in pod_class.rules.preferred]
            drawn += [
                (index.preference_weights(selection, key), 1)
                for selection in sorted(pod_class.matched_by)
                for key in index.preference_keys.get(selection, ())
            ]
            if self._hard:
                drawn += [
                    (index.with_affinity(selection, key), self._hard)
                    for selection in sorted(pod_class.matched_by)
                    for key in index.affinity_keys.get(selection, ())
                ]
            own = Batch.SINGLE if pod_class.feeds_any(tally for tally, _ in drawn) else Batch.COLUMNS
            found = self._drawn[pod_class.id] = (own, drawn)
        return found

    def batch(self, task: Task) -> Batch:
        if not self.weight:
            return Batch.SKIP
        own, drawn = self._ask(task)
        if own != Batch.SINGLE and not any(tally.pods for tally, _ in drawn):
            return Batch.SKIP
        return own

    def class_key(self, task: Task) -> ClassKey:
        return class_key_of_tallies(tally for tally, _ in self._ask(task)[1])

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        total = np.zeros(len(nodes), np.int64)
        for tally, weight in self._ask(task)[1]:
            if tally.pods:
                counts = tally.counts if weight == 1 else tally.counts * weight
                total += counts.take(columns(tally.domains.codes, nodes))
        return total.astype(np.float64)

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        inside = raw[candidates]
        least, most = inside.min(), inside.max()
        if least == most:
            return np.zeros(len(raw))
        score: Floats = np.floor(100.0 * ((raw - least) / (most - least)))
        score = np.clip(score, 0.0, 100.0) * self.weight
        return score


class TopologySpread(Weighted):
    """Scores soft topology spread constraints (ScheduleAnyway), and kube-scheduler's default constraints.

    A node's count of matching pods in each constraint's domain is weighted by the logarithm of how many domains the
    candidates have, so that a few zones weigh as much as many hosts; fewer pods score higher. Since that number depends
    on the candidates, `raw` only returns which nodes are equal: a whole number that identifies the node's domains and,
    by hostname, its own count. Nodes without the labels have −1 and are not scored.
    """

    term = "podtopologyspread"
    scope = Scope.CLUSTER
    normalised = True

    def __init__(self, weight: int, index: PodIndex) -> None:
        super().__init__(weight)
        self._spread = SpreadIndex(index)

    def _ask(self, task: Task) -> tuple[PodClass, Sequence[SpreadCounts]] | None:
        spread = self._spread
        if spread.index.has_no_rules:
            return None
        pod_class = spread.index.pod_class(task)
        return (pod_class, spread.soft(task, pod_class)) if pod_class.rules.soft else None

    def batch(self, task: Task) -> Batch:
        found = self._ask(task) if self.weight else None
        if found is None:
            return Batch.SKIP
        pod_class, soft = found
        return batch_of(pod_class, soft)

    def class_key(self, task: Task) -> ClassKey:
        found = self._ask(task)
        return ClassKey() if found is None else self._spread.class_key(*found)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        found = self._ask(task)
        if found is None:
            return np.zeros(len(nodes))
        pod_class, soft = found
        class_of: Numbers = np.zeros(len(nodes), np.int64)
        for spreading in soft:
            codes = columns(spreading.domains.codes, nodes)
            if spreading.constraint.key == HOSTNAME:
                codes = np.where(codes != spreading.domains.absent, 1 + _own_counts(spreading, nodes), 0)
            class_of *= _class_count(spreading)
            class_of += codes
        return np.where(columns(self._spread.scored(pod_class), nodes), class_of, -1).astype(np.float64)

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        found = self._ask(task)
        class_of = raw.astype(np.int64)
        inside = candidates & (class_of >= 0)
        if found is None or not inside.any():
            return np.zeros(len(raw))
        soft = found[1]
        known, at = _table(class_of, math.prod(_class_count(s) for s in soft))
        here = np.zeros(len(known), np.bool_)
        here[at[inside]] = True
        return np.where(class_of < 0, 0.0, self._normalise(soft, known, here, int(inside.sum()))[at]) * self.weight

    def normalise_classes(self, task: Task, raw: Floats, candidates: Numbers) -> Floats:
        found = self._ask(task)
        class_of = raw.astype(np.int64)
        inside = (candidates > 0) & (class_of >= 0)
        if found is None or not inside.any():
            return np.zeros(len(raw))
        known = np.maximum(class_of, 0)
        scores = self._normalise(found[1], known, inside, int(candidates[inside].sum()))
        return np.where(class_of < 0, 0.0, scores) * self.weight

    def _normalise(self, soft: Sequence[SpreadCounts], known: Numbers, here: Bools, candidates: int) -> Floats:
        scores = self._scores(soft, known, here, candidates)
        least, most = int(scores[here].min()), int(scores[here].max())
        if most == 0:
            return np.full(len(known), 100.0)
        return np.clip(100 * (most + least - scores) // most, 0, 100).astype(np.float64)

    @staticmethod
    def _scores(soft: Sequence[SpreadCounts], known: Numbers, here: Bools, candidates: int) -> Numbers:
        """Returns the rounded weighted count per node class; `here` are the classes among the candidates."""
        total = np.zeros(len(known))
        rest, parts = known, []
        for spreading in reversed(soft):
            rest, code = np.divmod(rest, _class_count(spreading))
            parts.append(code)
        for spreading, code in zip(soft, reversed(parts), strict=True):
            c = spreading.constraint
            if c.key == HOSTNAME:
                size, counts, labelled = candidates, np.maximum(code - 1, 0), code > 0
            else:
                # kube-scheduler: nodes without the label, if they are scored at all, are one more domain.
                size, labelled = len(np.unique(code[here])), code != spreading.domains.absent
                counts = np.zeros_like(code) if spreading.tally is None else spreading.tally.counts[code]
            score = counts.astype(np.float64) * math.log(size + 2) + float(c.max_skew - 1)
            total = np.where(labelled, total + score, total)
        whole = np.floor(total)
        return (whole + (total - whole >= 0.5)).astype(np.int64)


def _own_counts(spreading: SpreadCounts, nodes: NodeView) -> Numbers:
    if spreading.tally is None:
        return np.zeros(len(nodes), np.int64)
    return columns(spreading.tally.counts[:-1], nodes).astype(np.int64)


def _class_count(spreading: SpreadCounts) -> int:
    """Returns how many node classes one constraint distinguishes."""
    if spreading.constraint.key == HOSTNAME:
        return 2 + (0 if spreading.tally is None else int(spreading.tally.counts.max()))
    return spreading.domains.absent + 1


def _table(class_of: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """Returns the classes for the table, and the class of each node."""
    if most <= _MAX_TABLE_SIZE:
        return np.arange(most), class_of
    known, at = np.unique(np.maximum(class_of, 0), return_inverse=True)
    return known, at
