"""Filters by hard topology spread constraints (whenUnsatisfiable: DoNotSchedule)."""

from __future__ import annotations

import numpy as np

from muster.engine.core.hooks import Batch, NodeFilter, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.static import columns
from muster.engine.pod_rules.affinity import PodClass, PodIndex
from muster.engine.pod_rules.spread import SpreadIndex, batch_of

_TEXT = "node(s) didn't match pod topology spread constraints"
NO_LABEL = Reason("topology-spread-label", f"{_TEXT} (missing required label)", resolvable=False)
SKEWED = Reason("topology-spread", _TEXT)
_REASONS = [NO_LABEL, SKEWED]  # in the order of LABEL and SKEW of engine.pod_rules.spread


class TopologySpread(NodeFilter):
    term = "topologyspread"
    scope = Scope.CLUSTER

    def __init__(self, index: PodIndex) -> None:
        self._spread = SpreadIndex(index)

    def _ask(self, task: Task) -> PodClass | None:
        """Returns the task's pod class if it has constraints."""
        if not task.shape.spec.topology_spread_constraints or self._spread.index.has_no_rules:
            return None
        pod_class = self._spread.index.pod_class(task)
        return pod_class if pod_class.rules.hard or pod_class.rules.spread_fault else None

    def batch(self, task: Task) -> Batch:
        pod_class = self._ask(task)
        if pod_class is None:
            return Batch.SKIP
        return batch_of(pod_class, self._spread.hard(task, pod_class))

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        pod_class = self._ask(task)
        if pod_class is None:
            return Verdict(np.zeros(len(nodes), np.uint16))
        if pod_class.rules.spread_fault:
            text = f"parsing pod: {pod_class.rules.spread_fault}"
            return Verdict(np.ones(len(nodes), np.uint16), [Reason("bad-object", text, resolvable=False)])
        code = None
        for counts in self._spread.hard(task, pod_class):
            table = counts.refusals(int(pod_class.matches(counts.constraint.selection)))
            own = table.take(columns(counts.domains.codes, nodes))
            # kube-scheduler: the first constraint that fails gives the reason.
            code = own if code is None else np.where(code == 0, own, code)
        assert code is not None
        return Verdict(code, _REASONS)
