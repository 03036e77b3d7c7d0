"""Packs: the fuller a node would be in what the pod asks for, the better.

The score is Σ (used + request)·weight/allocatable over the resources that the pod requests and that have a weight,
divided by the sum of the weights, times 100 and the plugin's weight. A node that would exceed its allocatable scores 0.
"""

from __future__ import annotations

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.axis import SHARED, Axis
from muster.engine.core.hooks import Batch, Bools, Floats, Plugin, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import ColumnScore
from muster.engine.core.nodes import Nodes, NodeView
from muster.engine.core.shares import USED, Ratio, Share, ShareScorer

_RESOURCE = "binpack.resources."
ALMOST_ALL = 1.0 - 1e-12  # a node that would exceed its allocatable has at least this share, rounding included


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
        self._weight = arguments.int("binpack.weight", 1)
        # Volcano treats a negative weight of a resource as 1.
        self._weights = {name: arguments.int(f"binpack.{name}", 1, minimum=0) for name in ("cpu", "memory")}
        for name in arguments.strings("binpack.resources"):
            self._weights[name] = arguments.int(f"{_RESOURCE}{name}", 1, minimum=0)

    def span(self) -> float:
        return abs(100.0 * self._weight)

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if self._weight and self._counted(task) else Batch.SKIP

    def _counted(self, task: Task) -> tuple[str, ...]:
        """Returns the resources that the pod requests and that have a weight, if only 0."""
        amounts = task.shape.amounts
        return tuple([name for name in self._weights if amounts.get(name, 0) > 0])

    def _weighted(self, task: Task, axis: Axis) -> tuple[list[tuple[int, int, int]], int]:
        """Returns key, request and weight of the resources that count, and the sum of the weights.

        Volcano ignores a resource with weight 0.
        """
        counted, amounts = self._counted(task), task.shape.amounts
        terms = [(axis.row(name), amounts[name], w) for name in counted if (w := self._weights[name])]
        return terms, sum([weight for _, _, weight in terms])

    def column_score(self, task: Task, nodes: Nodes) -> ColumnScore | None:
        terms, weights = self._weighted(task, nodes.axis)
        used, factor = 2 * nodes.axis.size, 100.0 * self._weight
        if any(row >= SHARED for row, _, _ in terms):
            return None

        def score(rows: list[int], alloc: list[int]) -> float:
            total = 0.0
            for row, request, weight in terms:
                use, offered = rows[used + row] + request, alloc[row]
                if offered:
                    if use > offered:
                        return 0.0
                    total += use * float(weight) / max(float(offered), 1.0)
            return total / weights * factor if terms else 0.0

        return score

    def shares(self, task: Task, nodes: Nodes) -> list[Share]:
        terms, _ = self._weighted(task, nodes.axis)
        return [(Ratio(USED, row, float(weight)), request) for row, request, weight in terms]

    def of_shares(self, task: Task, shares: Floats, nodes: NodeView) -> Floats:
        if not shares.size:
            return np.zeros(len(nodes))
        terms, weights = self._weighted(task, nodes.nodes.axis)
        for share, (row, _, _) in zip(shares, terms, strict=True):
            # A node without the resource adds nothing, but the weight still counts in the divisor.
            if not self.capacity.everywhere(nodes.nodes, (row, False)):
                share[nodes.alloc[row] == 0] = 0.0
        total: Floats = shares[0] + shares[1] if len(shares) > 1 else shares[0].copy()
        for share in shares[2:]:
            total += share
        total /= weights
        total *= 100.0 * self._weight
        if shares.max() > ALMOST_ALL * min([weight for _, _, weight in terms]):
            total[_exceeded(terms, nodes)] = 0.0
        return total


def _exceeded(terms: list[tuple[int, int, int]], nodes: NodeView) -> Bools:
    """Returns the nodes that would exceed what they offer."""
    exceeded = np.zeros(len(nodes), np.bool_)
    for row, request, _ in terms:
        offered = nodes.alloc[row]
        exceeded |= (nodes.used[row] + request > offered) & (offered > 0)
    return exceeded
