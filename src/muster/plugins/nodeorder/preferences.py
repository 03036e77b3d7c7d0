"""What a pod would like of a node: preferred node affinity, taints it minds, images that lie there already."""

from __future__ import annotations

import numpy as np

from muster.engine.core.hooks import Bools, Floats, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.static import columns
from muster.engine.pod_rules.images import ImageLocality as Images
from muster.engine.pod_rules.node_selectors import Preferred
from muster.engine.pod_rules.taints import Tolerations
from muster.plugins.nodeorder.weighted import Weighted


class NodeAffinity(Weighted):
    """The weights of the preferred terms that select the node, the best candidate having 100."""

    term = "nodeaffinity"
    scope = Scope.STATIC
    normalised = True

    def __init__(self, weight: int) -> None:
        super().__init__(weight)
        self._preferred = Preferred()

    def concerns(self, task: Task) -> bool:
        return Preferred.concerns(task.shape.spec)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return columns(self._preferred.of(task.shape, nodes.nodes), nodes).astype(np.float64)

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        return per_cent(raw, candidates) * self.weight


class TaintToleration(Weighted):
    """PreferNoSchedule taints the pod does not tolerate: none is worth 100, the most 0."""

    term = "tainttoleration"
    scope = Scope.STATIC
    normalised = True

    def __init__(self, weight: int) -> None:
        super().__init__(weight)
        self._tolerations = Tolerations()

    def flat(self, task: Task, nodes: NodeView) -> bool:
        return not self._tolerations.of(task.shape, nodes.nodes).any_disliked

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return columns(self._tolerations.of(task.shape, nodes.nodes).disliked, nodes).astype(np.float64)

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        return (100.0 - per_cent(raw, candidates)) * self.weight


class ImageLocality(Weighted):
    term = "imagelocality"
    scope = Scope.STATIC

    def __init__(self, weight: int) -> None:
        super().__init__(weight)
        self._images = Images()

    def flat(self, task: Task, nodes: NodeView) -> bool:
        return self._images.nowhere(nodes.nodes)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return columns(self._images.of(task.shape, nodes.nodes), nodes).astype(np.float64) * self.weight


def per_cent(raw: Floats, candidates: Bools) -> Floats:
    """kube-scheduler's usual scale: 100 for the highest candidate, rounded down; nodes beyond it are held to 100."""
    highest = float(raw[candidates].max())
    if highest <= 0:
        return np.zeros(len(raw))
    scaled: Floats = np.floor(raw * 100.0 / highest)
    return np.minimum(np.maximum(scaled, 0.0), 100.0)
