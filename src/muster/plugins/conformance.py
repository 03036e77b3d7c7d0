"""Spares what the cluster itself runs on: critical pods and the namespace kube-system are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.hooks import Plugin, Preemptable, Reclaimable
from muster.engine.jobs import Task

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin, Preemptable, Reclaimable):
    name = "conformance"

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return [t.namespace != "kube-system" and t.shape.spec.priority_class_name not in _CRITICAL for t in candidates]

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)
