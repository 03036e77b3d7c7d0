"""Units of pods that are counted together, the policy each follows, and how many of its pods each node group has."""

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

# Bound, not finished, not terminating; and in a cycle what has been given a node or promised one.
_COUNTED = (*ALLOCATED_LIKE, Status.PIPELINED, Status.UNKNOWN)


@dataclass(slots=True)
class Ruled:
    """A unit that a policy has a say in. `group_of` gives a node's place in `groups`, −1 for none of them."""

    unit: Unit
    ruling: BoundPolicy | PlacementRefusal
    groups: list[str] = field(default_factory=list)
    group_of: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: dict[str, int] = field(default_factory=dict)
    groups_without_nodes: dict[str, str] = field(default_factory=dict)  # groups that hold no node, and why


class Units:
    """One cycle's units, found when they are first asked about."""

    def __init__(self, state: State) -> None:
        self._state = state
        policies = {k: p for k, p in state.objects["PropagationPolicy"].items() if isinstance(p, PropagationPolicy)}
        groups = {k: g for k, g in state.objects["NodeGroup"].items() if isinstance(g, NodeGroup)}
        nodes = dict(zip(state.nodes.names, state.nodes.objects, strict=True))
        self._grouping = Grouping(nodes, groups, policies)
        self._custom = frozenset(kind.__name__ for kind in custom_kinds(state.objects))
        self._owned: dict[tuple[str, str, str, str], Ruled | None] = {}  # by the controller that pods name
        self._ruled: dict[Unit, Ruled | None] = {}
        self._any = False
        self._placed: dict[Unit, list[Task]] | None = None
        self._group_of: dict[tuple[str, ...], Index] = {}

    def of(self, task: Task) -> Ruled | None:
        """The task's unit; None: no policy has a say in where it goes."""
        meta = task.pod.metadata
        owner = controller(meta) if meta.owner_references else None
        if owner is None:
            # A pod by itself is its own application. Most have no such label, and that is soon seen.
            return self._find(task)[1] if PolicyLabels.PROPAGATION.required in meta.labels else None
        at = (task.namespace, owner.kind, owner.name, owner.uid)
        if at in self._owned:
            return self._owned[at]
        unit, ruled = self._find(task)
        if unit[0] != "Pod":  # else the owner is not there, and each pod stands for itself
            self._owned[at] = ruled
        return ruled

    def count(self, move: Move, sign: int) -> None:
        """Equal tasks of one job come to their nodes, or leave them."""
        if not self._any:
            return
        for task, node in zip(move.tasks, move.nodes, strict=True):
            ruled = self._known(task)
            if ruled is not None and isinstance(ruled.ruling, BoundPolicy):
                _add(ruled, node, sign)

    def _known(self, task: Task) -> Ruled | None:
        """The task's unit, if its pods have been counted; others are counted as they are when somebody asks."""
        owner = controller(task.pod.metadata)
        if owner is not None:
            at = (task.namespace, owner.kind, owner.name, owner.uid)
            if at in self._owned:
                return self._owned[at]
        return self._ruled.get(("Pod", task.key))

    def _find(self, task: Task) -> tuple[Unit, Ruled | None]:
        try:
            application = application_of(task.pod, self._lookup, self._custom)
        except OwnerLoop as loop:
            alone = ("Pod", task.key)
            return alone, Ruled(alone, PlacementRefusal("owner-loop", str(loop)))
        if application.unit not in self._ruled:
            ruled = self._ruled[application.unit] = self._rule(application)
            self._any = self._any or ruled is not None
        return application.unit, self._ruled[application.unit]

    def _lookup(self, kind: str, key: str) -> Object | None:
        return self._state.objects[kind].get(key)

    def _rule(self, application: Application) -> Ruled | None:
        ruling = self._grouping.policies.rule_for(application)
        if ruling is None:
            return None
        ruled = Ruled(application.unit, ruling)
        if isinstance(ruling, BoundPolicy):
            ruled.groups = ruling.rules.groups
            ruled.group_of = self._places(tuple(ruled.groups))
            ruled.groups_without_nodes = self._grouping.groups_without_nodes(ruling.rules)
            for task in self._tasks(application.unit):
                _add(ruled, task.node, 1)
        return ruled

    def _places(self, groups: tuple[str, ...]) -> Index:
        """For each node the index of the first of the groups that contains it, −1 if none does."""
        found = self._group_of.get(groups)
        if found is None:
            group_of, rank = self._grouping.group_of(groups), {group: i for i, group in enumerate(groups)}
            indices = [rank[group_of[name]] if name in group_of else -1 for name in self._state.nodes.names]
            found = self._group_of[groups] = np.array(indices, np.int64)
        return found

    def _tasks(self, unit: Unit) -> list[Task]:
        """The unit's pods that have a node now."""
        if self._placed is None:
            self._placed = {}
            for task in self._state.tasks.values():
                if task.node >= 0 and task.status in _COUNTED:
                    self._placed.setdefault(unit_of(task.key, task.pod), []).append(task)
        return [task for task in self._placed.get(unit, ()) if task.node >= 0 and task.status in _COUNTED]


def _add(ruled: Ruled, node: int, n: int) -> None:
    place = int(ruled.group_of[node])
    if place >= 0:
        group = ruled.groups[place]
        ruled.counts[group] = ruled.counts.get(group, 0) + n
