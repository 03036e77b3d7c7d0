"""Protects what the cluster itself runs on: critical pods and the namespace kube-system are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.core.hooks import Opinion, Plugin, Preemptable, Protection, Reason, Reclaimable
from muster.engine.core.jobs import Task
from muster.engine.evictions.claim import Claim

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin, Protection, Preemptable, Reclaimable):
    name = "conformance"
    opinion = Opinion.NONE
    by_shape = True

    def protects_always(self, task: Task) -> bool:
        return task.namespace == "kube-system" or task.shape.spec.priority_class_name in _CRITICAL

    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        for critical in victims:
            if self.protects_always(critical):
                break
        else:
            return None
        system = critical.namespace == "kube-system"
        what = critical.namespace if system else critical.shape.spec.priority_class_name
        return Reason("conformance", f"{what} is protected by conformance", resolvable=False)

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return [not self.protects_always(task) for task in candidates]

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)
