"""Scores by properties of the node: preferred node affinity, PreferNoSchedule taints and local images."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, Floats, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import Nodes, NodeView
from muster.engine.core.static import PerSpec, columns, read_only
from muster.engine.pod_rules.node_selectors import Preferred
from muster.engine.pod_rules.taints import Tolerations
from muster.model.core import Node, PodSpec
from muster.plugins.nodeorder.weighted import Weighted


class NodeAffinity(Weighted):
    """Scores by the weights of the preferred terms that match the node, scaled so that the best candidate has 100."""

    term = "nodeaffinity"
    scope = Scope.STATIC
    constraints_only = True
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
    """Scores by PreferNoSchedule taints that the pod does not tolerate: 100 for none, 0 for the most."""

    term = "tainttoleration"
    scope = Scope.STATIC
    constraints_only = True
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
    constraints_only = True

    def __init__(self, weight: int) -> None:
        super().__init__(weight)
        self._images = ImageScores()

    def flat(self, task: Task, nodes: NodeView) -> bool:
        return self._images.nowhere(nodes.nodes)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return columns(self._images.of(task.shape, nodes.nodes), nodes).astype(np.float64) * self.weight


def per_cent(raw: Floats, candidates: Bools) -> Floats:
    """Applies kube-scheduler's usual scale: 100 for the best candidate, rounded down; other nodes have at most 100."""
    highest = float(raw[candidates].max())
    if highest <= 0:
        return np.zeros(len(raw))
    scaled: Floats = np.floor(raw * 100.0 / highest)
    return np.minimum(np.maximum(scaled, 0.0), 100.0)


Scores = NDArray[np.int8]

_MB = 1024 * 1024
LEAST = 23 * _MB
MOST_PER_CONTAINER = 1000 * _MB


class ImageScores(PerSpec[Scores]):
    """Scores 0 to 100 per node for the images of a pod that the node has already, as kube-scheduler does.

    An image counts with its size, scaled by the share of nodes that have it, so that pods do not all go to the one node
    that has the image. The sum over the containers is mapped from 23 MB .. 1000 MB per container to 0 .. 100. An image
    whose nodes report different sizes counts with each node's size: kube-scheduler uses the first size it reads,
    which would make the score depend on node order.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, dict[int, int]] = {}  # image → node → bytes
        self._images: dict[int, dict[str, int]] = {}  # node → image → bytes

    def differs(self, old: Node, new: Node) -> bool:
        return old.status.images != new.status.images

    def reread(self, nodes: Nodes, changed: Sequence[int]) -> None:
        if len(changed) == len(nodes):
            self._sizes, self._images = {}, {}
        for i in [i for i in changed if nodes.objects[i].status.images or i in self._images]:
            images = nodes.objects[i].status.images
            for name in self._images.get(i, ()):
                del self._sizes[name][i]
            sizes: dict[str, int] = {}
            for image in images:
                for name in image.names:
                    sizes.setdefault(name, image.size_bytes)
            for name, size in sizes.items():
                self._sizes.setdefault(name, {})[i] = size
            self._images[i] = sizes

    def nowhere(self, nodes: Nodes) -> bool:
        """Returns whether no node reports its images."""
        self.refresh(nodes)
        return not any(self._sizes.values())

    def part(self, spec: PodSpec) -> Hashable:
        return tuple(full_name(c.image) for c in (*spec.init_containers, *spec.containers))

    def answer(self, spec: PodSpec, nodes: Nodes) -> Scores:
        images = [full_name(c.image) for c in (*spec.init_containers, *spec.containers)]
        total = np.zeros(len(nodes), np.int64)
        for image in images:
            sizes = self._sizes.get(image)
            if sizes:
                spread = len(sizes) / len(nodes)
                total[list(sizes)] += (np.fromiter(sizes.values(), np.float64, len(sizes)) * spread).astype(np.int64)
        most = MOST_PER_CONTAINER * max(len(images), 1)
        return read_only((100 * (np.clip(total, LEAST, most) - LEAST) // (most - LEAST)).astype(np.int8))


def full_name(image: str) -> str:
    """Returns the full image name. kube-scheduler: a name without a tag or digest means :latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
