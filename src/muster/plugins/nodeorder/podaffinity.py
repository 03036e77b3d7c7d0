"""Scores preferred pod affinity: that of the incoming pod, and that of the pods on nodes towards it.

Each pod that matches a preferred term of the incoming one adds the term's weight to its topology domain (anti-affinity
takes it away); so does each pod whose own preferred term matches the incoming one. A pod whose required affinity term
matches the incoming one adds kube-scheduler's hardPodAffinityWeight: 1 there, 0 in Volcano and here.
"""

from __future__ import annotations

import numpy as np

from muster.engine.core.hooks import Batch, Bools, Floats, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.static import columns
from muster.engine.pod_rules.affinity import PodIndex
from muster.engine.pod_rules.tally import Tally
from muster.plugins.nodeorder.weighted import Weighted


class PodAffinity(Weighted):
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
