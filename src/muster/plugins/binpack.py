"""Packs: the fuller a node would be in what the pod asks for, the better.

The score is Σ (used + request)·weight/allocatable over the resources that the pod requests and that have a weight,
divided by the sum of the weights, times 100 and the plugin's weight. A node that would exceed its allocatable scores 0.
"""

from __future__ import annotations

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.axis import SHARED
from muster.engine.core.hooks import Batch, Bools, Floats, NodeScorer, Plugin, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import ColumnScore
from muster.engine.core.nodes import Nodes, NodeView
from muster.engine.core.static import Capacity

_RESOURCE = "binpack.resources."


class Binpack(Plugin, NodeScorer):
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
        super().__init__(arguments, option)
        self._capacity = Capacity()
        self._weight = arguments.int("binpack.weight", 1)
        # Volcano treats a negative weight of a resource as 1.
        self._weights = {name: arguments.int(f"binpack.{name}", 1, minimum=0) for name in ("cpu", "memory")}
        for name in arguments.strings("binpack.resources"):
            self._weights[name] = arguments.int(f"{_RESOURCE}{name}", 1, minimum=0)

    def span(self) -> float:
        return abs(100.0 * self._weight)

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if self._weight and self._counted(task) else Batch.SKIP

    def _counted(self, task: Task) -> dict[str, int]:
        """Returns the weights of the resources that the pod requests."""
        return {name: w for name, w in self._weights.items() if task.shape.amounts.get(name, 0) > 0}

    def column_score(self, task: Task, nodes: Nodes) -> ColumnScore | None:
        counted, axis = self._counted(task), nodes.axis
        weights, used = sum(counted.values()), 2 * axis.size
        factor = 100.0 * self._weight
        terms = [(axis.row(name), task.shape.amounts[name], float(w)) for name, w in counted.items() if w]
        if any(row >= SHARED for row, _, _ in terms):
            return None

        def score(rows: list[int], alloc: list[int]) -> float:
            total = 0.0
            for row, request, weight in terms:
                use, offered = rows[used + row] + request, alloc[row]
                if offered:
                    if use > offered:
                        return 0.0
                    total += use * weight / max(float(offered), 1.0)
            return total / weights * factor if terms else 0.0

        return score

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        counted = self._counted(task)
        weights = sum(counted.values())
        total: Floats | None = None
        over: Bools | None = None
        axis = nodes.nodes.axis
        for name, weight in counted.items():
            # Volcano ignores a resource with weight 0. A node without the resource adds nothing, but the weight still
            # counts in the divisor.
            if weight:
                row = axis.row(name)
                use = nodes.used[row] + task.shape.amounts[name]
                part = use.astype(np.float64)
                part *= float(weight)
                part /= self._capacity.of(nodes, row)
                too_much = use > nodes.alloc[row]
                if not self._capacity.everywhere(nodes, row):
                    absent = nodes.alloc[row] == 0
                    part[absent] = 0.0
                    too_much &= ~absent
                over = too_much if over is None else over | too_much
                total = part if total is None else total + part
        if total is None or over is None:
            return np.zeros(len(nodes))
        total /= weights
        total *= 100.0 * self._weight
        if over.any():
            total[over] = 0.0
        return total
