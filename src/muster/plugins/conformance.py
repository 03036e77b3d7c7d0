"""Spares what the cluster itself runs on: critical pods and the namespace kube-system are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.core.hooks import Opinion, Plugin, Preemptable, Protection, Reason, Reclaimable
from muster.engine.core.jobs import Task
from muster.engine.evictions.claim import Claim

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin, Protection, Preemptable, Reclaimable):
    name = "conformance"
    opinion = Opinion.NONE

    def protects_always(self, task: Task) -> bool:
        return task.namespace == "kube-system" or task.shape.spec.priority_class_name in _CRITICAL

    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        if not any(self.protects_always(task) for task in victims):
            return None
        return Reason("critical", "pods of kube-system and critical pods are never evicted", resolvable=False)

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return [not self.protects_always(task) for task in candidates]

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)
