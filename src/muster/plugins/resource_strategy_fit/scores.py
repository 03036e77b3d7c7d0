"""The scores and the filter of resource-strategy-fit: the strategy score, and scarce resource avoidance.

Scarce resource avoidance keeps pods that do not need a scarce resource away from its nodes. Retention is a score:
points for every scarce resource that a node does *not* have. Proportional is a filter: a pod that requests no primary
resource must leave enough cpu and memory for the idle primary devices.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec import Struct

from muster.engine.core.hooks import Batch, Bools, Floats, NodeFilter, NodeScorer, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.resources import CPU, MEMORY
from muster.plugins.resource_strategy_fit.settings import LEAST, MOST, Preference, Settings

TYPE = "volcano.sh/resource-strategy-scoring-type"
WEIGHT = "volcano.sh/resource-strategy-weight"

_weights = msgspec.json.Decoder(dict[str, int])


def annotated_strategy(task: Task) -> tuple[str, str | None] | None:
    """Returns the strategy annotated on the pod: (type, weights as JSON); None if the configuration applies."""
    notes = task.annotations
    return (notes[TYPE], notes.get(WEIGHT)) if TYPE in notes else None


def preferences_of(annotated_strategy: tuple[str, str | None]) -> dict[str, Preference]:
    """Reads the annotations; resources without a weight are ignored. Raises ValueError if they are invalid."""
    type_, text = annotated_strategy
    if type_ not in (MOST, LEAST):
        raise ValueError(f"annotation {TYPE} is {type_!r}, neither {MOST} nor {LEAST}")
    if text is None:
        raise ValueError(f"annotation {TYPE} is given without {WEIGHT}")
    try:
        weights = _weights.decode(text)
    except msgspec.DecodeError:
        raise ValueError(f'annotation {WEIGHT} is {text!r}, not JSON such as {{"cpu": 1}}') from None
    if any(weight < 0 for weight in weights.values()):
        raise ValueError(f"annotation {WEIGHT} is {text!r}, with a weight below 0")
    return {resource: Preference(type_, weight) for resource, weight in weights.items()}


class ScoredResource(Struct, frozen=True):
    """One resource in the score of a pod."""

    resource: str
    request: int
    packs: bool
    weight: int


class Strategy(NodeScorer):
    """The weighted mean over resources of pack (fuller is better) or spread (emptier is better).

    The pod's requests are added to what the node already uses. A resource that the node does not have scores 0 but its
    weight counts; a node that would exceed one of the resources scores 0 in total.
    """

    term = "strategy"
    scope = Scope.NODE

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.warnings: list[str] = []
        self._parts: dict[object, list[ScoredResource]] = {}

    def open(self, warnings: list[str]) -> None:
        """Starts a cycle; faults of pods' annotations are added to its warnings."""
        self.warnings = warnings
        self._parts.clear()

    def span(self) -> float:
        return 100.0 * self.settings.strategy_weight

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if self.settings.strategy_weight else Batch.SKIP

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        parts = self.parts(task)
        counted = sum(part.weight for part in parts)
        if not counted:
            return np.zeros(len(nodes))
        rows = nodes.nodes.axis.rows
        total, overfull = np.zeros(len(nodes)), np.zeros(len(nodes), np.bool_)
        for part in parts:
            row = rows[part.resource]
            alloc, after = nodes.alloc[row], nodes.used[row] + part.request
            has = alloc > 0
            share = np.divide(after if part.packs else alloc - after, alloc, out=np.zeros(len(nodes)), where=has)
            total += share * part.weight
            overfull |= has & (after > alloc)
        return np.where(overfull, 0.0, total / counted * 100.0 * self.settings.strategy_weight)

    def parts(self, task: Task) -> list[ScoredResource]:
        """Returns the requested resources that count, by name, so that sums do not depend on the order of the input."""
        key = (task.shape.id, annotated_strategy(task))
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = []
            own = self._own(task)
            for resource, request in sorted(task.shape.amounts.items()):
                taken = self.settings.preference(resource) if own is None else own.get(resource)
                if taken is not None and request > 0:
                    parts.append(ScoredResource(resource, request, taken.type == MOST, taken.weight))
        return parts

    def _own(self, task: Task) -> dict[str, Preference] | None:
        annotated = annotated_strategy(task)
        if annotated is None:
            return None
        try:
            return preferences_of(annotated)
        except ValueError as fault:
            # Volcano: a pod whose annotations cannot be used has no strategy score.
            self.warnings.append(f"Pod {task.key}: {fault}; its strategy score is 0")
            return {}


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
    if row is None:
        return np.zeros(len(nodes), np.bool_)
    has: Bools = nodes.alloc[row] > 0
    return has


def _amount(dimension: str, n: float) -> str:
    return f"{n:g} cpu" if dimension == "cpu" else f"{n:g}G memory"
