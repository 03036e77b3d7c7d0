"""kube-scheduler's scores, each 0 to 100 times its weight, summed.

`resources` scores how full a node would be, `preferences` scores by properties of the node itself; `pod_rules` scores
by other pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Batch, Floats, NodeScorer, Plugin
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.session import Session
from muster.engine.pod_rules.affinity import PodIndex
from muster.plugins.nodeorder.pod_rules import PodAffinity, TopologySpread
from muster.plugins.nodeorder.preferences import ImageLocality, NodeAffinity, TaintToleration
from muster.plugins.nodeorder.resources import BalancedResource, LeastRequested, MostRequested, OfLoad
from muster.plugins.nodeorder.weighted import Weighted

_WEIGHTS = {
    "leastrequested": (1, "how empty cpu and memory would be"),
    "mostrequested": (0, "how full cpu and memory would be"),
    "balancedresource": (1, "how evenly cpu, memory and nvidia.com/gpu would be used"),
    "nodeaffinity": (2, "preferred node affinity"),
    "podaffinity": (2, "preferred pod affinity and anti-affinity"),
    "tainttoleration": (3, "few PreferNoSchedule taints that the pod does not tolerate"),
    "imagelocality": (1, "images that lie on the node already"),
    "podtopologyspread": (2, "topology spread constraints that should hold"),
}
_HARD = "podaffinity.hardPodAffinityWeight"


class NodeOrder(Plugin, NodeScorer):
    name = "nodeorder"
    arguments = {
        f"{name}.weight": f"weight of {what}; 0 switches it off ({default})"
        for name, (default, what) in _WEIGHTS.items()
    } | {
        _HARD: "how much the required pod affinity of a pod on a node attracts the pods it selects, from 0 to 100; "
        "kube-scheduler's default is 1 (0)"
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._weight = {name: arguments.int(f"{name}.weight", default) for name, (default, _) in _WEIGHTS.items()}
        self._hard = arguments.int(_HARD, 0, minimum=0, maximum=100)
        self._lasting: list[Weighted] = [  # these keep data about nodes from cycle to cycle
            ImageLocality(self._weight["imagelocality"]),
            LeastRequested(self._weight["leastrequested"]),
            MostRequested(self._weight["mostrequested"]),
            BalancedResource(self._weight["balancedresource"]),
            NodeAffinity(self._weight["nodeaffinity"]),
            TaintToleration(self._weight["tainttoleration"]),
        ]
        self._terms: list[Weighted] = []

    def open(self, session: Session) -> None:
        # Volcano: predicates updates the nodes that nodeorder reads; without that plugin its scores use the state at
        # the start of the cycle.
        current = any(plugin.name == "predicates" for plugin in session.plugins)
        for term in self._lasting:
            if isinstance(term, OfLoad):
                term.open(session.state.nodes, current)
        self._index = index = session.shared(PodIndex) if current else PodIndex(session)
        self._terms = [
            *self._lasting,
            PodAffinity(self._weight["podaffinity"], index, self._hard),
            TopologySpread(self._weight["podtopologyspread"], index),
        ]

    def cluster_signature(self, task: Task) -> Hashable | None:
        return self._index.signature(task)

    def signs(self, shape: Shape) -> bool:
        return not self._index.has_no_rules

    def reads_labels(self) -> bool:
        return not self._index.has_no_rules

    def scorers(self) -> Sequence[NodeScorer]:
        return self._terms

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        """Returns the sum of all terms, with every column as a candidate."""
        everywhere = np.ones(len(nodes), np.bool_)
        total = np.zeros(len(nodes))
        for term in self._terms:
            if term.batch(task) != Batch.SKIP:
                part = term.raw(task, nodes)
                total += term.normalise(task, part, everywhere) if term.normalised else part
        return total
