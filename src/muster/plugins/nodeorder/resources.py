"""How full a node would be, as kube-scheduler's noderesources plugins score it: least, most and balanced.

Least and most count cpu and memory of load including this pod, containers without a request with their defaults (100m,
200Mi); each percentage is rounded down, and so is their mean. Balanced counts real requests. A resource of which a node
offers nothing takes no part there. Integer floors are done in float64, which is exact below 2^45 (bytes, millicores).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.engine.axis import CPU, MEMORY
from muster.engine.hooks import Bools, Floats, Scope
from muster.engine.jobs import Task
from muster.engine.nodes import NodeView
from muster.plugins.nodeorder.weighted import Weighted

GPU = "nvidia.com/gpu"


class LeastRequested(Weighted):
    term = "leastrequested"
    scope = Scope.NODE

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        parts = []
        for row, asked in zip((CPU, MEMORY), task.shape.nonzero, strict=True):
            free = nodes.alloc[row] - nodes.nonzero[row]
            free -= asked
            parts.append(_percent(np.maximum(free, 0, out=free), nodes.alloc[row]))
        return _mean(parts, nodes, self.weight)


class MostRequested(Weighted):
    term = "mostrequested"
    scope = Scope.NODE

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        parts = []
        for row, asked in zip((CPU, MEMORY), task.shape.nonzero, strict=True):
            use = nodes.nonzero[row] + asked
            parts.append(_percent(np.minimum(use, nodes.alloc[row], out=use), nodes.alloc[row]))
        return _mean(parts, nodes, self.weight)


class BalancedResource(Weighted):
    """100 where cpu, memory and GPUs would be used to equal shares, less by their standard deviation."""

    term = "balancedresource"
    scope = Scope.NODE

    def concerns(self, task: Task) -> bool:
        # kube-scheduler: a pod that asks for none of the resources is not scored, lest they all go to one node.
        asked = task.shape.amounts
        return any(asked.get(name) for name in ("cpu", "memory", GPU))

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        asked = task.shape.amounts
        cpu = _share(nodes, CPU, asked.get("cpu", 0))
        memory = _share(nodes, MEMORY, asked.get("memory", 0))
        gpu = _share(nodes, nodes.nodes.axis.row(GPU), asked[GPU]) if asked.get(GPU) else None
        if gpu is None and _offered(nodes):
            deviation = np.abs((cpu - memory) / 2)
        else:
            shares = [(cpu, nodes.alloc[CPU] > 0), (memory, nodes.alloc[MEMORY] > 0)]
            if gpu is not None:
                shares.append((gpu, nodes.alloc[nodes.nodes.axis.row(GPU)] > 0))
            deviation = _deviation(shares)
        score: Floats = np.floor((1 - deviation) * 100.0)
        return score if self.weight == 1 else score * self.weight


def _percent(amount: NDArray[np.int64], alloc: NDArray[np.int64]) -> Floats:
    """The amount in per cent of alloc, rounded down; 0 where alloc is 0 (the amount is 0 there, too)."""
    percent = amount.astype(np.float64)
    percent *= 100.0
    percent /= np.maximum(alloc, 1)
    np.floor(percent, out=percent)
    return percent


def _mean(parts: list[Floats], nodes: NodeView, weight: int) -> Floats:
    """The mean, rounded down, over the resources of which the node offers any."""
    total: Floats = parts[0] + parts[1]
    if _offered(nodes):
        total /= 2
    else:
        total /= np.maximum((nodes.alloc[CPU] > 0).astype(np.int64) + (nodes.alloc[MEMORY] > 0), 1)
    np.floor(total, out=total)
    total *= weight
    return total


def _offered(nodes: NodeView) -> bool:
    """Do all nodes offer both cpu and memory, as real ones do?"""
    return bool(nodes.alloc[CPU].all() and nodes.alloc[MEMORY].all())


def _share(nodes: NodeView, row: int, asked: int) -> Floats:
    """What part of the node's allocatable would be asked for, at most all of it."""
    share: Floats = (nodes.load[row] + asked) / np.maximum(nodes.alloc[row], 1)
    np.minimum(share, 1.0, out=share)
    return share


def _deviation(shares: list[tuple[Floats, Bools]]) -> Floats:
    """The standard deviation over the resources that the node offers; of two it is half their distance."""
    count = sum((offered.astype(np.int64) for _, offered in shares), np.zeros(len(shares[0][0]), np.int64))
    there = [np.where(offered, share, 0.0) for share, offered in shares]
    mean = there[0]
    for share in there[1:]:
        mean = mean + share
    mean = mean / np.maximum(count, 1)
    squares = np.zeros(len(count))
    for share, (_, offered) in zip(there, shares, strict=True):
        squares = squares + np.where(offered, (share - mean) * (share - mean), 0.0)
    three = np.sqrt(squares / np.maximum(count, 1))
    highest, lowest = np.full(len(count), -1.0), np.full(len(count), 2.0)
    for share, offered in shares:
        highest = np.where(offered, np.maximum(highest, share), highest)
        lowest = np.where(offered, np.minimum(lowest, share), lowest)
    two = (highest - lowest) / 2
    return np.where(count > 2, three, np.where(count == 2, two, 0.0))
