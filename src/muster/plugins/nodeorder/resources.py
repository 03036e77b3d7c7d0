"""How full a node would be, as kube-scheduler's noderesources plugins score it: least, most and balanced.

Least and most count cpu and memory of load including this pod, containers without a request with their defaults (100m,
200Mi); each percentage is rounded down, and so is their mean. Balanced counts real requests. A resource of which a node
offers nothing takes no part there. Integer floors are done in float64, which is exact below 2^45 (bytes, millicores).
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from muster.engine.axis import CPU, MEMORY
from muster.engine.hooks import Floats, Scope
from muster.engine.jobs import Task
from muster.engine.nodes import Nodes, NodeView, Rows
from muster.plugins.nodeorder.weighted import Weighted

GPU = "nvidia.com/gpu"


class OfLoad(Weighted):
    """A score of a node's load, as it is or as it was when the cycle began."""

    scope = Scope.NODE

    def __init__(self, weight: int) -> None:
        super().__init__(weight)
        self._began: Rows | None = None

    def open(self, nodes: Nodes, current: bool) -> None:
        self._began = None if current or not self.weight else nodes.rows.copy()

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        if self._began is not None:
            nodes = NodeView(nodes.nodes, nodes.index, self._began[:, nodes.index], nodes.alloc)
        score = self.score(task, nodes)
        score *= self.weight
        return score

    @abstractmethod
    def score(self, task: Task, nodes: NodeView) -> Floats:
        """0 to 100, in an array of its own."""


class LeastRequested(OfLoad):
    term = "leastrequested"

    def score(self, task: Task, nodes: NodeView) -> Floats:
        parts = []
        for row, asked in zip((CPU, MEMORY), task.shape.nonzero, strict=True):
            free = nodes.alloc[row] - nodes.nonzero[row]
            free -= asked
            parts.append(_percent(np.maximum(free, 0, out=free), nodes.alloc[row]))
        return _mean(parts, nodes)


class MostRequested(OfLoad):
    term = "mostrequested"

    def score(self, task: Task, nodes: NodeView) -> Floats:
        parts = []
        for row, asked in zip((CPU, MEMORY), task.shape.nonzero, strict=True):
            use = nodes.nonzero[row] + asked
            parts.append(_percent(np.minimum(use, nodes.alloc[row], out=use), nodes.alloc[row]))
        return _mean(parts, nodes)


class BalancedResource(OfLoad):
    """Does the pod bring the shares of cpu, memory and GPUs in use closer together or apart?

    kube-scheduler from 1.36 on, and Volcano with it: 75 where their evenness stays as it is, 100 from the worst to the
    best, 50 the other way. (Up to 1.35 evenness with the pod was the score.)
    """

    term = "balancedresource"

    def concerns(self, task: Task) -> bool:
        # kube-scheduler: a pod that asks for none of the resources is not scored, lest they all go to one node.
        asked = task.shape.amounts
        return any(asked.get(name) for name in ("cpu", "memory", GPU))

    def score(self, task: Task, nodes: NodeView) -> Floats:
        score = _evenness(nodes, task.shape.amounts, 1)
        score -= _evenness(nodes, task.shape.amounts, 0)
        score += 150.0
        score /= 2.0
        np.floor(score, out=score)
        return score


def _percent(amount: NDArray[np.int64], alloc: NDArray[np.int64]) -> Floats:
    """The amount in per cent of alloc, rounded down; 0 where alloc is 0 (the amount is 0 there, too)."""
    percent = amount.astype(np.float64)
    percent *= 100.0
    percent /= np.maximum(alloc, 1)
    np.floor(percent, out=percent)
    return percent


def _mean(parts: list[Floats], nodes: NodeView) -> Floats:
    """The mean, rounded down, over the resources of which the node offers any."""
    total: Floats = parts[0] + parts[1]
    if _offered(nodes):
        total /= 2
    else:
        total /= np.maximum((nodes.alloc[CPU] > 0).astype(np.int64) + (nodes.alloc[MEMORY] > 0), 1)
    np.floor(total, out=total)
    return total


def _offered(nodes: NodeView) -> bool:
    """Do all nodes offer both cpu and memory, as real ones do?"""
    return bool(nodes.alloc[CPU].all() and nodes.alloc[MEMORY].all())


def _evenness(nodes: NodeView, asked: dict[str, int], copies: int) -> Floats:
    """100 where the shares in use are equal, less by their standard deviation, rounded down."""
    even: Floats = 1 - _deviation(nodes, asked, copies)
    even *= 100.0
    np.floor(even, out=even)
    return even


def _deviation(nodes: NodeView, asked: dict[str, int], copies: int) -> Floats:
    """The standard deviation of the shares in use, with so many copies of the pod; a resource that a node does not
    offer takes no part. Of two shares it is half their distance."""
    cpu = _share(nodes, CPU, copies * asked.get("cpu", 0))
    memory = _share(nodes, MEMORY, copies * asked.get("memory", 0))
    if not asked.get(GPU):
        apart: Floats = np.abs((cpu - memory) / 2)
        return apart if _offered(nodes) else np.where((nodes.alloc[CPU] > 0) & (nodes.alloc[MEMORY] > 0), apart, 0.0)
    row = nodes.nodes.axis.row(GPU)
    gpu = _share(nodes, row, copies * asked[GPU])
    shares = [(cpu, nodes.alloc[CPU] > 0), (memory, nodes.alloc[MEMORY] > 0), (gpu, nodes.alloc[row] > 0)]
    count = np.zeros(len(nodes), np.int64)
    total = np.zeros(len(nodes))
    for share, offered in shares:
        count += offered
        total += np.where(offered, share, 0.0)
    mean = total / np.maximum(count, 1)
    squares = np.zeros(len(nodes))
    for share, offered in shares:
        squares += np.where(offered, (share - mean) * (share - mean), 0.0)
    spread: Floats = np.sqrt(squares / np.maximum(count, 1))
    # kube-scheduler reckons two shares by their distance, which rounds differently in the last bit.
    highest, lowest = np.zeros(len(nodes)), np.ones(len(nodes))
    for share, offered in shares:
        highest = np.where(offered, np.maximum(highest, share), highest)
        lowest = np.where(offered, np.minimum(lowest, share), lowest)
    return np.where(count > 2, spread, np.where(count == 2, (highest - lowest) / 2, 0.0))


def _share(nodes: NodeView, row: int, asked: int) -> Floats:
    """What part of the node's allocatable is asked for, at most all of it."""
    share: Floats = (nodes.load[row] + asked) / np.maximum(nodes.alloc[row], 1)
    np.minimum(share, 1.0, out=share)
    return share
