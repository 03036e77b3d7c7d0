"""Packs: the fuller a node would be in what the pod requests, the better.

The score is Σ (used + request)·weight/allocatable over the resources that the pod requests and that have a weight,
divided by the sum of the weights, times 100 and the plugin's weight. A node that would exceed its allocatable scores 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.axis import SHARED, Axis
from muster.engine.core.hooks import Batch, Floats, Plugin, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import OneNodeScore
from muster.engine.core.nodes import MoveKind, Nodes, NodeView
from muster.engine.core.shares import USED, Ratio, Share, ShareScorer

_RESOURCE = "binpack.resources."
_MOST_KNOWN = 256


class Binpack(Plugin, ShareScorer):
    name = "binpack"
    scope = Scope.NODE
    columns_only = True
    arguments = {
        "binpack.weight": "how much the score counts; 0 switches it off (1)",
        "binpack.cpu": "weight of cpu (1)",
        "binpack.memory": "weight of memory (1)",
        "binpack.resources": "names of other resources that count, separated by commas",
        f"{_RESOURCE}*": "weight of the resource of that name (1)",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        Plugin.__init__(self, arguments, option)
        ShareScorer.__init__(self)
        self._known: dict[tuple[Axis, int, tuple[str, ...]], _Weighted] = {}
        self._weight = arguments.int("binpack.weight", 1)
        # Volcano treats a negative weight of a resource as 1.
        self._weights = {name: arguments.int(f"binpack.{name}", 1, minimum=0) for name in ("cpu", "memory")}
        for name in arguments.strings("binpack.resources"):
            self._weights[name] = arguments.int(f"{_RESOURCE}{name}", 1, minimum=0)

    def span(self) -> float:
        return abs(100.0 * self._weight)

    def batch(self, task: Task) -> Batch:
        amounts = task.shape.amounts
        for name in self._weights:
            if name in amounts and amounts[name] > 0:
                return Batch.COLUMNS if self._weight else Batch.SKIP
        return Batch.SKIP

    def _counted(self, task: Task) -> tuple[str, ...]:
        """Returns the resources that the pod requests and that have a weight, if only 0."""
        amounts = task.shape.amounts
        return tuple([name for name in self._weights if name in amounts and amounts[name] > 0])

    def _weighted(self, task: Task, axis: Axis) -> _Weighted:
        """Returns how the resources that the pod requests are weighted."""
        key = (axis, axis.version, self._counted(task))
        found = self._known.get(key)
        if found is None:
            self._known = self._known if len(self._known) < _MOST_KNOWN else {}
            found = self._known[key] = _Weighted(key[2], self._weights, axis)
        return found

    def one_node_score(self, task: Task, nodes: Nodes) -> OneNodeScore | None:
        weighted = self._weighted(task, nodes.axis)
        if weighted.shared:
            return None
        used, weights, factor = 2 * nodes.axis.size, weighted.sum, 100.0 * self._weight
        amounts = task.shape.amounts
        terms = [(row, amounts[name], weight) for name, row, weight in weighted.terms]

        def score(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
            total = 0.0
            for row, request, weight in terms:
                use, offered = rows[used + row] + request, alloc[row]
                if offered:
                    if use > offered:
                        return 0.0
                    total += use * weight / offered
            return total / weights * factor if terms else 0.0

        return score

    def shares(self, task: Task, nodes: Nodes) -> list[Share]:
        return self._weighted(task, nodes.axis).shares(task)

    def of_shares(self, task: Task, shares: Floats, nodes: NodeView, *, fitting: bool = False) -> Floats:
        if not len(shares):
            return np.zeros(len(nodes))
        weighted = self._weighted(task, nodes.nodes.axis)
        if not self.capacity.everywhere(nodes.nodes, weighted.offers):
            # A node without the resource adds nothing, but the weight still counts in the divisor.
            for share, ratio in zip(shares, weighted.ratios, strict=True):
                share[..., nodes.alloc[ratio.key] == 0] = 0.0
        total: Floats = shares[0] + shares[1] if len(shares) > 1 else shares[0].copy()
        for share in shares[2:]:
            total += share
        total /= weighted.sum
        total *= 100.0 * self._weight
        if not fitting:
            for ratio, request in weighted.shares(task):
                offered = nodes.alloc[ratio.key]
                total[(nodes.used[ratio.key] + request > offered) & (offered > 0)] = 0.0
        return total


class _Weighted:
    """The resources that count for some pods. Volcano ignores a resource with weight 0."""

    def __init__(self, names: Iterable[str], weights: Mapping[str, int], axis: Axis) -> None:
        self.names = [name for name in names if weights[name]]
        self.sum = sum([weights[name] for name in self.names])
        self.ratios = [Ratio(USED, axis.row(name), float(weights[name])) for name in self.names]
        self.offers = tuple([(ratio.key, ratio.real) for ratio in self.ratios])
        self.terms = [(name, r.key, r.factor) for name, r in zip(self.names, self.ratios, strict=True)]
        self.shared = any(ratio.key >= SHARED for ratio in self.ratios)

    def shares(self, task: Task) -> list[Share]:
        amounts = task.shape.amounts
        return [(ratio, amounts[name]) for ratio, name in zip(self.ratios, self.names, strict=True)]
