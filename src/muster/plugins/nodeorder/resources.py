"""Scores how full a node would be, as kube-scheduler's noderesources plugins do: least, most and balanced.

Least and most use the load of cpu and memory including this pod, and defaults for containers without a request (100m,
200Mi); each percentage is rounded down, and so is their mean. Balanced uses real requests. A resource that a node does
not offer is ignored. Integer floors are done in float64, which is exact below 2^45 (bytes, millicores).

A node offers its allocatable, as kube-scheduler sees it: Volcano's oversubscription annotations count for the fit,
binpack and quotas only.

These functions run for every signature, so they avoid conversions and temporary arrays.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.axis import SHARED, Rows
from muster.engine.core.hooks import Bools, Floats, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import OneNodeScore
from muster.engine.core.nodes import MoveKind, Nodes, NodeView
from muster.engine.core.resources import CPU, MEMORY
from muster.engine.core.shares import LOAD, NONZERO, Ratio, Share, ShareScorer
from muster.plugins.nodeorder.weighted import Weighted

GPU = "nvidia.com/gpu"
_CPU_AND_MEMORY = ((CPU, True), (MEMORY, True))  # as the node objects offer them
# The load in per cent, as it lowers and raises a score.
_CPU_LESS, _MEMORY_LESS = Ratio(NONZERO, CPU, -100.0, real=True), Ratio(NONZERO, MEMORY, -100.0, real=True)
_CPU_MORE, _MEMORY_MORE = Ratio(NONZERO, CPU, 100.0, real=True), Ratio(NONZERO, MEMORY, 100.0, real=True)
_LOAD = Ratio(LOAD, CPU, 1.0, real=True), Ratio(LOAD, MEMORY, 1.0, real=True)
_IDLE = (_LOAD[CPU], 0), (_LOAD[MEMORY], 0)


def real(nodes: NodeView) -> Rows:
    """Returns cpu and memory as the node objects offer them."""
    offered, oversold = nodes.offered[: MEMORY + 1], nodes.nodes.oversubscribed
    return offered if oversold is None else offered - oversold.take(nodes.index, axis=1)


def _offers(nodes: NodeView, row: int) -> Bools:
    offers: Bools = (real(nodes)[row] if row <= MEMORY else nodes.alloc[row]) > 0
    return offers


class OfLoad(Weighted, ShareScorer):
    """A score by a node's load, as it is now or as it was at the start of the cycle."""

    scope = Scope.NODE

    def __init__(self, weight: int) -> None:
        Weighted.__init__(self, weight)
        ShareScorer.__init__(self)
        self._began: Rows | None = None

    def open(self, nodes: Nodes, current: bool) -> None:
        self._began = None if current or not self.weight else nodes.rows.copy()
        self.stacked = self._began is None
        # Nodes that are equal now may have differed then; their columns do not show oversubscription.
        self.columns_only = self._began is None and nodes.oversubscribed is None

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        if self._began is not None:
            nodes = NodeView(nodes.nodes, nodes.index, self._began[:, nodes.index], nodes.offered)
        return super().raw(task, nodes)

    def of_shares(self, task: Task, shares: Floats, nodes: NodeView, *, fitting: bool = False) -> Floats:
        score = self.score(task, shares, nodes)
        if self.weight != 1:
            score *= self.weight
        return score

    @abstractmethod
    def score(self, task: Task, shares: Floats, nodes: NodeView) -> Floats:
        """Returns 0 to 100 in a new array."""

    def one_node_score(self, task: Task, nodes: Nodes) -> OneNodeScore | None:
        if not self.columns_only:
            return None
        score, weight = self.of_node(task, nodes), self.weight
        if weight == 1 or score is None:
            return score
        return lambda node, rows, alloc, kind: score(node, rows, alloc, kind) * weight

    @abstractmethod
    def of_node(self, task: Task, nodes: Nodes) -> OneNodeScore | None:
        """Returns `score` as a function of one node; None if a resource shares its row with others."""

    def mean(self, percent: Floats, nodes: NodeView) -> Floats:
        """Returns the mean of two percentages, which are rounded down and held within their limits, rounded down.

        A resource that the node does not offer is ignored.
        """
        if self.capacity.everywhere(nodes.nodes, _CPU_AND_MEMORY):
            mean: Floats = percent[0] + percent[1]
            mean /= 2.0
        else:
            offered = real(nodes)
            percent[CPU][..., offered[CPU] == 0] = 0.0
            percent[MEMORY][..., offered[MEMORY] == 0] = 0.0
            mean = percent[0] + percent[1]
            mean /= np.where((offered[CPU] > 0) & (offered[MEMORY] > 0), 2.0, 1.0)
        return np.floor(mean, out=mean)


def _mean_of_column(cpu: int, memory: int, alloc: list[int]) -> float:
    """Computes `OfLoad.mean` for one node."""
    if alloc[CPU] and alloc[MEMORY]:
        return (cpu + memory) // 2
    return cpu if alloc[CPU] else memory if alloc[MEMORY] else 0.0


class LeastRequested(OfLoad):
    term = "leastrequested"

    def of_node(self, task: Task, nodes: Nodes) -> OneNodeScore:
        cpu, memory = task.shape.nonzero
        loaded, floor = 4 * nodes.axis.size, math.floor

        def score(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
            offered_cpu, offered_memory = alloc[CPU], alloc[MEMORY]
            free_cpu = floor((offered_cpu - rows[loaded] - cpu) * 100.0 / (offered_cpu or 1.0))
            free_memory = floor((offered_memory - rows[loaded + 1] - memory) * 100.0 / (offered_memory or 1.0))
            return _mean_of_column(free_cpu if free_cpu > 0 else 0, free_memory if free_memory > 0 else 0, alloc)

        return score

    def shares(self, task: Task, nodes: Nodes) -> list[Share]:
        cpu, memory = task.shape.nonzero
        return [(_CPU_LESS, cpu), (_MEMORY_LESS, memory)]

    def score(self, task: Task, shares: Floats, nodes: NodeView) -> Floats:
        # 100 less the percentage rounded up is what is free in per cent, rounded down.
        np.floor(shares, out=shares)
        shares += 100.0
        return self.mean(np.maximum(shares, 0.0, out=shares), nodes)


class MostRequested(OfLoad):
    term = "mostrequested"

    def of_node(self, task: Task, nodes: Nodes) -> OneNodeScore:
        cpu, memory = task.shape.nonzero
        loaded, floor = 4 * nodes.axis.size, math.floor

        def score(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
            used_cpu = floor((rows[loaded] + cpu) * 100.0 / (alloc[CPU] or 1.0))
            used_memory = floor((rows[loaded + 1] + memory) * 100.0 / (alloc[MEMORY] or 1.0))
            return _mean_of_column(min(used_cpu, 100), min(used_memory, 100), alloc)

        return score

    def shares(self, task: Task, nodes: Nodes) -> list[Share]:
        cpu, memory = task.shape.nonzero
        return [(_CPU_MORE, cpu), (_MEMORY_MORE, memory)]

    def score(self, task: Task, shares: Floats, nodes: NodeView) -> Floats:
        np.floor(shares, out=shares)
        return self.mean(np.minimum(shares, 100.0, out=shares), nodes)


class BalancedResource(OfLoad):
    """Scores whether the pod makes the used shares of cpu, memory and GPUs more even or less even.

    kube-scheduler from 1.36 on, and Volcano with it: 75 where their evenness stays as it is, 100 from the worst to the
    best, 50 the other way. (Up to 1.35 evenness with the pod was the score.)
    """

    term = "balancedresource"

    def concerns(self, task: Task) -> bool:
        # kube-scheduler does not score a pod that requests none of the resources: all such pods would go to one node.
        asked = task.shape.amounts
        return bool(asked.get("cpu") or asked.get("memory") or asked.get(GPU))

    def of_node(self, task: Task, nodes: Nodes) -> OneNodeScore | None:
        load = 3 * nodes.axis.size
        terms = self._requests(task, nodes)
        if terms[-1][0] >= SHARED:
            return None

        def score_of_two(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
            cpu, memory = alloc[CPU], alloc[MEMORY]
            if not cpu or not memory:
                return 75  # a single share is even
            was = _evenness_of_two(rows[load], cpu, rows[load + 1], memory)
            then = _evenness_of_two(rows[load] + terms[0][1], cpu, rows[load + 1] + terms[1][1], memory)
            return (then - was + 150) // 2

        def score(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
            before: list[float] = []
            after: list[float] = []
            for row, request in terms:
                if offered := alloc[row]:
                    was = rows[load + row]
                    before.append(was / offered if was < offered else 1.0)
                    after.append((was + request) / offered if was + request < offered else 1.0)
            return (_evenness_of_column(after) - _evenness_of_column(before) + 150) // 2

        return score_of_two if len(terms) == 2 else score

    @staticmethod
    def _requests(task: Task, nodes: Nodes) -> list[tuple[int, int]]:
        """Returns the keys of the resources that are compared, and the pod's requests."""
        asked = task.shape.amounts
        found = [(CPU, asked.get("cpu", 0)), (MEMORY, asked.get("memory", 0))]
        return [*found, (nodes.axis.row(GPU), asked[GPU])] if asked.get(GPU) else found

    def shares(self, task: Task, nodes: Nodes) -> list[Share]:
        (_, cpu), (_, memory), *gpu = self._requests(task, nodes)
        if not gpu:
            return [*_IDLE, (_LOAD[CPU], cpu), (_LOAD[MEMORY], memory)]
        key, gpus = gpu[0]
        ratio = Ratio(LOAD, key, 1.0, real=True)
        return [*_IDLE, (ratio, 0), (_LOAD[CPU], cpu), (_LOAD[MEMORY], memory), (ratio, gpus)]

    def score(self, task: Task, shares: Floats, nodes: NodeView) -> Floats:
        np.minimum(shares, 1.0, out=shares)
        count = len(shares) // 2
        # (Without and with the pod) × resources × columns, so that each step computes both.
        both = shares.reshape(2, count, *shares.shape[1:])
        offers = _CPU_AND_MEMORY if count == 2 else (*_CPU_AND_MEMORY, (nodes.nodes.axis.row(GPU), True))
        everywhere = self.capacity.everywhere
        offered: list[Bools | None] = [None] * count
        if not everywhere(nodes.nodes, offers):
            offered = [None if everywhere(nodes.nodes, (offer,)) else _offers(nodes, offer[0]) for offer in offers]
        even = evenness([both[:, i] for i in range(count)], offered)
        score: Floats = even[1] - even[0]
        score += 150.0
        score /= 2.0
        np.floor(score, out=score)
        return score


def evenness(shares: list[Floats], offered: list[NDArray[np.bool_] | None]) -> Floats:
    """Returns 100 where the shares are equal, reduced by their standard deviation, rounded down.

    `offered` has per resource the nodes that offer it (None: all nodes); a resource that a node lacks is ignored.
    """
    if offered[0] is None and offered[1] is None:
        deviation = _of_two(shares[0], shares[1]) if len(shares) == 2 or offered[2] is not None else _of_three(shares)
        if len(shares) == 3 and offered[2] is not None and offered[2].any():
            deviation = np.where(offered[2], _of_three(shares), deviation)
    else:
        deviation = _of_some(shares, [np.ones(shares[0].shape[-1], np.bool_) if o is None else o for o in offered])
    even: Floats = 1.0 - deviation
    even *= 100.0
    np.floor(even, out=even)
    return even


def _evenness_of_two(cpu: int, offered_cpu: int, memory: int, offered_memory: int) -> int:
    """Computes `evenness` for one node that offers cpu and memory."""
    first = cpu / offered_cpu if cpu < offered_cpu else 1.0
    second = memory / offered_memory if memory < offered_memory else 1.0
    return math.floor((1.0 - abs(first - second) / 2.0) * 100.0)


def _evenness_of_column(shares: list[float]) -> int:
    """Computes `evenness` for one node, of the resources that it offers."""
    if len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2.0
    elif len(shares) == 3:
        mean = (shares[0] + shares[1] + shares[2]) / 3.0
        first, second, third = shares[0] - mean, shares[1] - mean, shares[2] - mean
        deviation = math.sqrt((first * first + second * second + third * third) / 3.0)
    else:
        deviation = 0.0
    return math.floor((1.0 - deviation) * 100.0)


def _of_two(a: Floats, b: Floats) -> Floats:
    """Returns the standard deviation of two shares: half their distance."""
    apart: Floats = a - b
    apart /= 2.0
    return np.abs(apart, out=apart)


def _of_three(shares: list[Floats]) -> Floats:
    mean: Floats = shares[0] + shares[1]
    mean += shares[2]
    mean /= 3.0
    squares = np.zeros_like(mean)
    for share in shares:
        off = share - mean
        off *= off
        squares += off
    squares /= 3.0
    return np.sqrt(squares, out=squares)


def _of_some(shares: list[Floats], offered: list[NDArray[np.bool_]]) -> Floats:
    """Computes the deviation where nodes offer different resources: for each set of resources separately."""
    deviation = np.zeros_like(shares[0])
    for left_out in range(len(shares)):
        pair = [i for i in range(len(shares)) if i != left_out] if len(shares) == 3 else [0, 1]
        both = offered[pair[0]] & offered[pair[1]]
        deviation = np.where(both, _of_two(shares[pair[0]], shares[pair[1]]), deviation)
    if len(shares) == 3:
        deviation = np.where(offered[0] & offered[1] & offered[2], _of_three(shares), deviation)
    return deviation
