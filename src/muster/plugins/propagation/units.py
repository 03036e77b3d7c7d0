"""Units of pods that are counted together, the policy of each, and how many of its pods each node group has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Index
from muster.engine.core.jobs import ALLOCATED_LIKE, Status, Task
from muster.groups.applications import Application, OwnerLoop, Unit, application_of, unit_of
from muster.groups.binding import PolicyLabels
from muster.groups.grouping import Grouping
from muster.groups.policies import BoundPolicy, PlacementRefusal
from muster.model.custom import custom_kinds
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, controller

if TYPE_CHECKING:
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move

# Bound, not finished, not terminating; and in a cycle also tasks that are allocated or pipelined.
_COUNTED = (*ALLOCATED_LIKE, Status.PIPELINED, Status.UNKNOWN)


@dataclass(slots=True)
class UnitPlacement:
    """The placement rule and the counts of a unit. `group_of` gives a node's index in `groups`, −1 for none of them."""

    unit: Unit
    rule: BoundPolicy | PlacementRefusal
    groups: list[str] = field(default_factory=list)
    group_of: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: dict[str, int] = field(default_factory=dict)
    groups_without_nodes: dict[str, str] = field(default_factory=dict)  # and why


class Units:
    """The units of one cycle, computed when they are first needed."""

    def __init__(self, state: State) -> None:
        self._state = state
        policies = {k: p for k, p in state.objects["PropagationPolicy"].items() if isinstance(p, PropagationPolicy)}
        groups = {k: g for k, g in state.objects["NodeGroup"].items() if isinstance(g, NodeGroup)}
        nodes = dict(zip(state.nodes.names, state.nodes.objects, strict=True))
        self._grouping = Grouping(nodes, groups, policies)
        self._custom = frozenset(kind.__name__ for kind in custom_kinds(state.objects))
        self._owned: dict[tuple[str, str, str, str], UnitPlacement | None] = {}  # by the controller that pods name
        self._placements: dict[Unit, UnitPlacement | None] = {}
        self._any = False
        self._placed: dict[Unit, list[Task]] | None = None
        self._group_of: dict[tuple[str, ...], Index] = {}

    def of(self, task: Task) -> UnitPlacement | None:
        """Returns the placement of the task's unit; None if no policy restricts it."""
        meta = task.pod.metadata
        owner = controller(meta) if meta.owner_references else None
        if owner is None:
            # A pod without an owner is its own application. Most have no such label, which is a cheap check.
            return self._find(task)[1] if PolicyLabels.PROPAGATION.required in meta.labels else None
        at = (task.namespace, owner.kind, owner.name, owner.uid)
        if at in self._owned:
            return self._owned[at]
        unit, placement = self._find(task)
        if unit[0] != "Pod":  # else the owner does not exist, and each pod is its own unit
            self._owned[at] = placement
        return placement

    def count(self, move: Move, sign: int) -> None:
        """Counts equal tasks of one job that are placed on their nodes, or removed."""
        if not self._any:
            return
        for task, node in zip(move.tasks, move.nodes, strict=True):
            placement = self._known(task)
            if placement is not None and isinstance(placement.rule, BoundPolicy):
                _add(placement, node, sign)

    def _known(self, task: Task) -> UnitPlacement | None:
        """Returns the placement of the task's unit if its pods have been counted; others are counted on first use."""
        owner = controller(task.pod.metadata)
        if owner is not None:
            at = (task.namespace, owner.kind, owner.name, owner.uid)
            if at in self._owned:
                return self._owned[at]
        return self._placements.get(("Pod", task.key))

    def _find(self, task: Task) -> tuple[Unit, UnitPlacement | None]:
        try:
            application = application_of(task.pod, self._lookup, self._custom)
        except OwnerLoop as loop:
            alone = ("Pod", task.key)
            return alone, UnitPlacement(alone, PlacementRefusal("owner-loop", str(loop)))
        if application.unit not in self._placements:
            placement = self._placements[application.unit] = self._placement(application)
            self._any = self._any or placement is not None
        return application.unit, self._placements[application.unit]

    def _lookup(self, kind: str, key: str) -> Object | None:
        return self._state.objects[kind].get(key)

    def _placement(self, application: Application) -> UnitPlacement | None:
        rule = self._grouping.policies.rule_for(application)
        if rule is None:
            return None
        placement = UnitPlacement(application.unit, rule)
        if isinstance(rule, BoundPolicy):
            placement.groups = rule.rules.groups
            placement.group_of = self._group_indices(tuple(placement.groups))
            placement.groups_without_nodes = self._grouping.groups_without_nodes(rule.rules)
            for task in self._tasks(application.unit):
                _add(placement, task.node, 1)
        return placement

    def _group_indices(self, groups: tuple[str, ...]) -> Index:
        """Returns for each node the index of the first of the groups that contains it, −1 if none does."""
        found = self._group_of.get(groups)
        if found is None:
            group_of, rank = self._grouping.group_of(groups), {group: i for i, group in enumerate(groups)}
            indices = [rank[group_of[name]] if name in group_of else -1 for name in self._state.nodes.names]
            found = self._group_of[groups] = np.array(indices, np.int64)
        return found

    def _tasks(self, unit: Unit) -> list[Task]:
        """Returns the unit's pods that have a node now."""
        if self._placed is None:
            self._placed = {}
            for task in self._state.tasks.values():
                if task.node >= 0 and task.status in _COUNTED:
                    self._placed.setdefault(unit_of(task.key, task.pod), []).append(task)
        return [task for task in self._placed.get(unit, ()) if task.node >= 0 and task.status in _COUNTED]


def _add(placement: UnitPlacement, node: int, n: int) -> None:
    index = int(placement.group_of[node])
    if index >= 0:
        group = placement.groups[index]
        placement.counts[group] = placement.counts.get(group, 0) + n
