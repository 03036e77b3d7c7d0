"""Fragmentation: the share of what is idle that no waiting pod can use, per resource.

A node's idle amount counts as usable as far as copies of one waiting shape would take it up; what is left over, or
lies on a node where the shape lacks something else, is fragments. 0: all of it could be used, 1: none of it can. Only
resources that some waiting shape asks for have a figure: idle GPUs are no fragments while only CPU pods wait.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.engine.core.axis import exact_sum
from muster.engine.core.jobs import Shape
from muster.engine.core.nodes import NodeView

__all__ = ["fragmentation"]


def fragmentation(nodes: NodeView, waiting: Iterable[Shape]) -> dict[str, float]:
    """By resource name, sorted. `waiting`: the shapes of pods without a node, in any order, repetitions allowed."""
    axis = nodes.nodes.axis
    shapes = {shape.id: shape for shape in waiting}
    idle = np.maximum(nodes.idle, 0)
    usable = np.zeros_like(idle)
    asked: set[str] = set()
    for shape in shapes.values():
        needs = [(axis.rows[name], amount) for name, amount in shape.amounts.items() if amount > 0]
        copies = np.min([idle[row] // amount for row, amount in needs], axis=0)
        for row, amount in needs:
            np.maximum(usable[row], copies * amount, out=usable[row])
        asked.update(axis.names[row] for row, _ in needs)
    figures: dict[str, float] = {}
    for name in sorted(asked - {"pods"}):
        row = axis.rows[name]
        total = exact_sum(idle[row])
        figures[name] = (total - exact_sum(usable[row])) / total if total else 0.0
    return figures
