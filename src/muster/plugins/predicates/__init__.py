"""kube-scheduler's filters: which nodes may take a pod at all, resources apart.

`node_filters` has the filters on the node itself, `pod_rules` those on other pods, `volumes` those on claims and
volumes. They run in Volcano's order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Batch, BindEffects, Effect, NodeFilter, Plugin, Reason, Verdict
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.requirements import Requirement, waiting
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.pod_rules.affinity import PodIndex
from muster.engine.pod_rules.ports import HostPorts
from muster.engine.pod_rules.taints import Tolerations
from muster.engine.volumes.volume_binder import VolumeBinder
from muster.model.affinity import Affinity, PodAffinity
from muster.plugins.predicates.node_filters import (
    NodeAffinity,
    NodePorts,
    NodeUnschedulable,
    PodCount,
    ResourceClaims,
    TaintToleration,
)
from muster.plugins.predicates.pod_rules import InterPodAffinity, TopologySpread
from muster.plugins.predicates.volumes import (
    VolumeBinding,
    VolumeLimits,
    VolumeRestrictions,
    VolumeZone,
    effects,
)

_SWITCHES = {
    "NodeAffinity": "node selectors and required node affinity",
    "NodePorts": "host ports",
    "TaintToleration": "taints of effect NoSchedule and NoExecute",
    "PodAffinity": "required pod affinity and anti-affinity",
    "NodeVolumeLimits": "how many volumes a node can attach",
    "VolumeZone": "zone and region of bound volumes",
    "PodTopologySpread": "topology spread constraints that must hold",
    "VolumeBinding": "claims that are bound elsewhere or cannot be bound",
}


class Predicates(Plugin, NodeFilter, BindEffects):
    name = "predicates"
    arguments = {f"predicate.{name}Enable": f"filter by {what} (true)" for name, what in _SWITCHES.items()}

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._on = {name: arguments.bool(f"predicate.{name}Enable", True) for name in _SWITCHES}
        tolerations = Tolerations()
        self._lasting = {  # these keep data about nodes from cycle to cycle
            "cordon": NodeUnschedulable(tolerations),
            "NodeAffinity": NodeAffinity(),
            "TaintToleration": TaintToleration(tolerations),
        }
        self._terms: list[NodeFilter] = []

    def open(self, session: Session) -> None:
        self._index = index = session.shared(PodIndex)
        self._volumes = volumes = session.shared(VolumeBinder)
        terms: list[tuple[str, NodeFilter]] = [
            ("", PodCount()),
            *self._lasting.items(),
            ("NodePorts", NodePorts(session.shared(HostPorts))),
            ("PodAffinity", InterPodAffinity(index)),
            ("", VolumeRestrictions(volumes)),
            ("NodeVolumeLimits", VolumeLimits(volumes)),
            ("VolumeZone", VolumeZone(volumes)),
            ("PodTopologySpread", TopologySpread(index)),
            ("VolumeBinding", VolumeBinding(volumes)),
            ("", ResourceClaims()),
        ]
        self._terms = [term for switch, term in terms if self._on.get(switch, True)]

    def signature(self, task: Task) -> Hashable | None:
        return self._volumes.node_signature(task)

    def cluster_signature(self, task: Task) -> Hashable | None:
        return self._volumes.cluster_signature(task), self._index.signature(task)

    def signs(self, shape: Shape) -> bool:
        return not self._index.has_no_rules or self._volumes.has(shape)[0]

    def reads_labels(self) -> bool:
        return not self._index.has_no_rules

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for task in waiting(state):
            spec = task.pod.spec
            affinity = spec.affinity or Affinity()
            near, apart = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
            spread = (constraint.when_unsatisfiable for constraint in spec.topology_spread_constraints)
            asked = {
                "has a nodeSelector": bool(spec.node_selector),
                "has a required node affinity": affinity.node_affinity and affinity.node_affinity.required,
                "has a required pod affinity": near.required,
                "has a required pod anti-affinity": apart.required,
                "has a topology spread constraint that must hold": "DoNotSchedule" in spread,
                "uses a PersistentVolumeClaim": any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes),
            }
            for text in (text for text, so in asked.items() if so):
                yield Requirement(f"Pod {task.key}", text, hard=True, switch="enablePredicate")

    def filters(self) -> Sequence[NodeFilter]:
        return self._terms

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        """Evaluates all terms: per column the first refusal."""
        code = np.zeros(len(nodes), np.uint16)
        reasons: list[Reason] = []
        for term in self._terms:
            if term.batch(task) != Batch.SKIP:
                verdict = term.filter(task, nodes)
                first = (code == 0) & (verdict.code > 0)
                code[first] = verdict.code[first] + len(reasons)
                reasons += verdict.reasons
        return Verdict(code, reasons)

    def concerns(self, shape: Shape) -> bool:
        return bool(shape.spec.volumes)

    def effects(self, task: Task, node: int) -> list[Effect]:
        return effects(self._volumes, task) if self._on["VolumeBinding"] else []
