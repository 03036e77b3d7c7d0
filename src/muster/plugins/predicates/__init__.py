"""kube-scheduler's filters: which nodes may take a pod at all, resources apart.

`terms` holds the filters that look at the node itself, `interpod` and `spread` those that look at other pods, `volumes`
those that look at claims and volumes. They are asked in Volcano's order.
"""

from __future__ import annotations

from muster.config.types import Arguments, PluginOption
from muster.engine.hooks import NodeFilter, Plugin, Verdict
from muster.engine.jobs import Task
from muster.engine.nodes import NodeView
from muster.engine.session import Session
from muster.engine.taints import Tolerations
from muster.plugins.predicates.terms import (
    NodeAffinity,
    NodePorts,
    NodeUnschedulable,
    PodCount,
    ResourceClaims,
    TaintToleration,
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


class Predicates(Plugin, NodeFilter):
    name = "predicates"
    arguments = {
        **{f"predicate.{name}Enable": f"filter by {what} (true)" for name, what in _SWITCHES.items()},
        "predicate.CacheEnable": "accepted for Volcano's files; answers are always cached",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        arguments.bool("predicate.CacheEnable", False)
        on = {name: arguments.bool(f"predicate.{name}Enable", True) for name in _SWITCHES}
        tolerations = Tolerations()
        terms: list[tuple[bool, NodeFilter]] = [
            (True, PodCount()),
            (True, NodeUnschedulable(tolerations)),
            (on["NodeAffinity"], NodeAffinity()),
            (on["TaintToleration"], TaintToleration(tolerations)),
            (on["NodePorts"], NodePorts()),
            (True, ResourceClaims()),
        ]
        self._terms = [term for enabled, term in terms if enabled]

    def open(self, session: Session) -> None:
        for term in self._terms:
            if isinstance(term, NodePorts):
                term.open(session)

    def filters(self) -> list[NodeFilter]:
        return self._terms

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        """All terms together: per column the first refusal."""
        whole, *others = (term.filter(task, nodes) for term in self._terms)
        for verdict in others:
            first = (whole.code == 0) & (verdict.code > 0)
            whole.code[first] = verdict.code[first] + len(whole.reasons)
            whole.reasons += verdict.reasons
        return whole
