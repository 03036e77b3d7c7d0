"""Scarce resource avoidance: pods that do not need a scarce resource leave its nodes to those that do.

Retention is a score: points for every scarce resource that a node does *not* have. Proportional is a filter: a pod that
requests no primary resource must leave enough cpu and memory for the idle primary devices.
"""

from __future__ import annotations

import numpy as np

from muster.engine.core.axis import CPU, MEMORY
from muster.engine.core.hooks import Batch, Bools, Floats, NodeFilter, NodeScorer, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.plugins.resource_strategy_fit.settings import Settings


class Retention(NodeScorer):
    """Gives points for scarce resources that the node lacks; none if the node lacks a requested resource."""

    term = "retention"
    scope = Scope.STATIC

    def __init__(self, settings: Settings) -> None:
        self.weight = settings.retention_weight
        self.scarce = settings.scarce
        self.counted = sum(settings.scarce.values())

    def span(self) -> float:
        return 100.0 * self.weight if self.counted else 0.0

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if self.weight and self.counted else Batch.SKIP

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        if not self.weight or not self.counted:
            return np.zeros(len(nodes))
        absent = np.zeros(len(nodes), np.int64)
        for resource, weight in self.scarce.items():
            absent += ~_has(nodes, resource) * weight
        # The designs' "meets the request": the node has every requested resource, even if it is fully used.
        meets = np.ones(len(nodes), np.bool_)
        for resource, amount in task.shape.amounts.items():
            if amount > 0:
                meets &= _has(nodes, resource)
        return np.where(meets, 100.0 * self.weight * absent / self.counted, 0.0)


class Proportional(NodeFilter):
    """Keeps cpu and memory free for idle primary devices."""

    term = "proportional"
    scope = Scope.NODE

    def __init__(self, settings: Settings) -> None:
        self.kept = settings.kept
        self.reasons = [
            Reason("proportional", f"node keeps {_amount(dimension, n)} free for each idle {resource}", resolvable)
            for resource, per in settings.kept.items()
            for dimension, n in per.items()
            for resolvable in (True, False)
        ]

    def batch(self, task: Task) -> Batch:
        primary = any(task.shape.amounts.get(resource, 0) > 0 for resource in self.kept)
        return Batch.SKIP if primary else Batch.COLUMNS

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        code = np.zeros(len(nodes), np.uint16)
        if self.batch(task) == Batch.SKIP:
            return Verdict(code)
        # Volcano: by what is idle now, not by what is being released. A claim waits until its victims are gone.
        free = nodes.idle if nodes.kind == MoveKind.ALLOCATE else nodes.future_idle
        cpu, memory = (task.shape.amounts.get(name, 0) for name in ("cpu", "memory"))
        number = 1
        for resource, per in self.kept.items():
            has = _has(nodes, resource)
            # Thousandths of a device: a core per device is as many milli-cpu, 10⁹ bytes are 10⁶ for a thousandth.
            idle = free[nodes.nodes.axis.rows[resource]] if has.any() else np.zeros(len(nodes), np.int64)
            for row, amount, due in ((CPU, cpu, idle * per["cpu"]), (MEMORY, memory, idle * per["memory"] * 1e6)):
                # Evictions can free all cpu and memory of the node; idle devices stay idle.
                hopeless = nodes.alloc[row] - amount < due
                refused = (code == 0) & has & (free[row] - amount < due)
                code[refused] = np.where(hopeless[refused], number + 1, number)
                number += 2
        return Verdict(code, self.reasons)


def _has(nodes: NodeView, resource: str) -> Bools:
    row = nodes.nodes.axis.rows.get(resource)
    if row is None or row >= len(nodes.alloc):
        return np.zeros(len(nodes), np.bool_)
    has: Bools = nodes.alloc[row] > 0
    return has


def _amount(dimension: str, n: float) -> str:
    return f"{n:g} cpu" if dimension == "cpu" else f"{n:g}G memory"
