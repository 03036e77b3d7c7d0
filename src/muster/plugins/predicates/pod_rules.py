"""Filters by the pods already on nodes: required pod affinity and anti-affinity, and hard spread constraints.

Affinity has two directions: that of the incoming pod, and the anti-affinity of the pods on nodes towards it. Spread
constraints are hard with `whenUnsatisfiable: DoNotSchedule`.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from muster.engine.core.hooks import Batch, Bools, NodeFilter, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.static import columns
from muster.engine.core.values import ClassKey
from muster.engine.pod_rules.affinity import PodClass, PodIndex
from muster.engine.pod_rules.spread import SpreadIndex, batch_of, class_key_of_domains
from muster.engine.pod_rules.tally import Tally, class_key_of_presence

AFFINITY = Reason("pod-affinity", "node(s) didn't match pod affinity rules", resolvable=False)
ANTI_AFFINITY = Reason("pod-anti-affinity", "node(s) didn't match pod anti-affinity rules")
EXISTING = Reason("existing-anti-affinity", "node(s) didn't satisfy existing pods anti-affinity rules")
_AFFINITY_REASONS = [AFFINITY, ANTI_AFFINITY, EXISTING]
_SPREAD_TEXT = "node(s) didn't match pod topology spread constraints"
NO_LABEL = Reason("topology-spread-label", f"{_SPREAD_TEXT} (missing required label)", resolvable=False)
SKEWED = Reason("topology-spread", _SPREAD_TEXT)
_SPREAD_REASONS = [NO_LABEL, SKEWED]  # in the order of LABEL and SKEW of engine.pod_rules.spread


class _AffinityTallies:
    """The tallies that decide about one pod class. `staying`: without the pods that are terminating."""

    __slots__ = ("affinity", "against", "anti", "draws_itself", "labelled", "repels_itself")

    def __init__(self, index: PodIndex, pod_class: PodClass, staying: bool) -> None:
        rules = pod_class.rules
        together = rules.together
        self.affinity: list[Tally] = []
        self.labelled: Bools | None = None  # the nodes that have the label of every affinity term
        if together is not None:
            keys = dict.fromkeys(key for _, key in rules.affinity)
            self.affinity = [index.matching(together, key, staying=staying) for key in keys]
            self.labelled = np.logical_and.reduce([tally.domains.labelled for tally in self.affinity])
        self.draws_itself = pod_class.matches(together)
        self.anti: list[Tally] = [
            index.matching(selection, key, staying=staying) for selection, key in dict.fromkeys(rules.anti)
        ]
        self.against: list[Tally] = [
            index.with_anti_affinity(selection, key, staying=staying)
            for selection in sorted(pod_class.matched_by)
            for key in index.anti_affinity_keys.get(selection, ())
        ]
        # The effect of such a pod on the next equal pod: none, or it excludes its own node, or a whole domain.
        own = [index.domains(key).single for selection, key in rules.anti if pod_class.matches(selection)]
        self.repels_itself = Batch.COLUMNS if not own else Batch.ONCE if all(own) else Batch.SINGLE


class InterPodAffinity(NodeFilter):
    term = "podaffinity"
    scope = Scope.CLUSTER

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._by_class: dict[tuple[int, bool], _AffinityTallies] = {}

    def _tallies(self, task: Task, kind: MoveKind = MoveKind.ALLOCATE) -> tuple[PodClass, _AffinityTallies] | None:
        index = self._index
        if index.has_no_rules:
            return None
        pod_class = index.pod_class(task)
        staying = kind == MoveKind.PIPELINE and index.any_terminating
        tallies = self._by_class.get((pod_class.id, staying))
        if tallies is None:
            tallies = self._by_class[pod_class.id, staying] = _AffinityTallies(index, pod_class, staying)
        return pod_class, tallies

    def batch(self, task: Task) -> Batch:
        found = self._tallies(task)
        if found is None:
            return Batch.SKIP
        pod_class, tallies = found
        later = self._tallies(task, MoveKind.PIPELINE)
        assert later is not None
        if tallies.affinity and tallies.draws_itself and not any(tally.pods for tally in later[1].affinity):
            return Batch.SINGLE  # the first pod of its group may go anywhere; the others must follow it
        if tallies.affinity or tallies.anti:
            return tallies.repels_itself
        if pod_class.rules.fault or any(tally.pods for tally in tallies.against):
            return Batch.COLUMNS
        return Batch.SKIP

    def class_key(self, task: Task) -> ClassKey:
        found = self._tallies(task)
        if found is None:
            return ClassKey()
        tallies = found[1]
        presence = class_key_of_presence([*tallies.affinity, *tallies.anti, *tallies.against])
        if not tallies.affinity:
            return presence

        def generation() -> Hashable:
            return presence.generation() if presence.generation else 0, any(tally.pods for tally in tallies.affinity)

        labelled = [tally.domains.labelled_codes for tally in tallies.affinity if tally.domains.narrow]
        return ClassKey((*presence.codes, *labelled), presence.counts, generation)

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        found = self._tallies(task, nodes.kind)
        code = np.zeros(len(nodes), np.uint16)
        if found is None:
            return Verdict(code)
        pod_class, tallies = found
        if pod_class.rules.fault:
            code[:] = 1
            return Verdict(code, [Reason("bad-object", f"parsing pod: {pod_class.rules.fault}", resolvable=False)])
        against = _where_any(tallies.against, nodes)
        if against is not None:
            np.multiply(against, 3, out=code, casting="unsafe")
        anti = _where_any(tallies.anti, nodes)
        if anti is not None:
            np.putmask(code, anti, 2)
        if tallies.affinity:
            np.putmask(code, ~self._near(tallies, nodes), 1)
        return Verdict(code, _AFFINITY_REASONS)

    @staticmethod
    def _near(tallies: _AffinityTallies, nodes: NodeView) -> Bools:
        """Returns the nodes that satisfy the pod's affinity terms."""
        if tallies.draws_itself and not any(tally.pods for tally in tallies.affinity):
            # kube-scheduler: while no pod matches the terms, a pod that matches its own terms may be the first.
            assert tallies.labelled is not None
            return columns(tallies.labelled, nodes)
        near: Bools | None = None
        for tally in tallies.affinity:
            has = tally.some.take(columns(tally.domains.codes, nodes))
            near = has if near is None else near & has
        assert near is not None
        return near


def _where_any(tallies: list[Tally], nodes: NodeView) -> Bools | None:
    """Returns the nodes in whose domain one of the tallies has a pod; None if there is no such domain."""
    found: Bools | None = None
    for tally in tallies:
        if tally.pods:
            has = tally.some.take(columns(tally.domains.codes, nodes))
            found = has if found is None else found | has
    return found


class TopologySpread(NodeFilter):
    term = "topologyspread"
    scope = Scope.CLUSTER

    def __init__(self, index: PodIndex) -> None:
        self._spread = SpreadIndex(index)

    def _constrained_class(self, task: Task) -> PodClass | None:
        """Returns the task's pod class if it has constraints."""
        if not task.shape.spec.topology_spread_constraints or self._spread.index.has_no_rules:
            return None
        pod_class = self._spread.index.pod_class(task)
        return pod_class if pod_class.rules.hard or pod_class.rules.spread_fault else None

    def batch(self, task: Task) -> Batch:
        pod_class = self._constrained_class(task)
        if pod_class is None:
            return Batch.SKIP
        return batch_of(pod_class, self._spread.hard(task, pod_class))

    def class_key(self, task: Task) -> ClassKey:
        pod_class = self._constrained_class(task)
        if pod_class is None or pod_class.rules.spread_fault:
            return ClassKey()
        return class_key_of_domains(self._spread.hard(task, pod_class))

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        pod_class = self._constrained_class(task)
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
        return Verdict(code, _SPREAD_REASONS)
