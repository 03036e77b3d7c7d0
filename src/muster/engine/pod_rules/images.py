"""Which nodes hold a pod's images already, as kube-scheduler scores it.

An image counts with its size, scaled by the share of nodes that have it (so that pods are not drawn to the one node
which happens to have the image); the sum over the pod's containers is then mapped from 23 MB .. 1000 MB per container
to 0 .. 100. An image whose nodes report different sizes counts with each node's own: kube-scheduler takes the size it
heard first, which would make the answer a matter of node order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.nodes import Nodes
from muster.engine.core.static import PerSpec, sealed
from muster.model.core import Node, PodSpec

Scores = NDArray[np.int8]

_MB = 1024 * 1024
LEAST = 23 * _MB
MOST_PER_CONTAINER = 1000 * _MB


class ImageLocality(PerSpec[Scores]):
    """0 .. 100 per node."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, dict[int, int]] = {}  # image → node → bytes
        self._held: list[dict[str, int]] = []  # node → image → bytes

    def differs(self, old: Node, new: Node) -> bool:
        return old.status.images != new.status.images

    def reread(self, nodes: Nodes, changed: Sequence[int]) -> None:
        if len(changed) == len(nodes):
            self._sizes, self._held = {}, [{} for _ in range(len(nodes))]
        for i in changed:
            for name in self._held[i]:
                del self._sizes[name][i]
            held: dict[str, int] = {}
            for image in nodes.objects[i].status.images:
                for name in image.names:
                    held.setdefault(name, image.size_bytes)
            for name, size in held.items():
                self._sizes.setdefault(name, {})[i] = size
            self._held[i] = held

    def nowhere(self, nodes: Nodes) -> bool:
        """Does no node say what images it has?"""
        self.keep_up(nodes)
        return not any(self._sizes.values())

    def part(self, spec: PodSpec) -> Hashable:
        return tuple(full_name(c.image) for c in (*spec.init_containers, *spec.containers))

    def answer(self, spec: PodSpec, nodes: Nodes) -> Scores:
        images = [full_name(c.image) for c in (*spec.init_containers, *spec.containers)]
        total = np.zeros(len(nodes), np.int64)
        for image in images:
            held = self._sizes.get(image)
            if held:
                spread = len(held) / len(nodes)
                total[list(held)] += (np.fromiter(held.values(), np.float64, len(held)) * spread).astype(np.int64)
        most = MOST_PER_CONTAINER * max(len(images), 1)
        return sealed((100 * (np.clip(total, LEAST, most) - LEAST) // (most - LEAST)).astype(np.int8))


def full_name(image: str) -> str:
    """kube-scheduler: a name without a tag (or digest) means :latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
