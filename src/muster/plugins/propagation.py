"""propagation: divides the pods of an application among node groups by its PropagationPolicy (design 5).

An application names a policy with a label. Once a controller has bound it, its pods go to nodes of the policy's groups,
to a group below its quota (`enablePredicate`), and preferably to a group that lacks more pods (`enableNodeOrder`). The
rules are those of `muster.groups`, which the scheduler extender uses as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from muster.engine.core.hooks import (
    Batch,
    Bools,
    Floats,
    Index,
    Ledger,
    NodeFilter,
    NodeScorer,
    Plugin,
    Reason,
    Scope,
    Verdict,
)
from muster.engine.core.jobs import ALLOCATED_LIKE, Status, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.requirements import Requirement, waiting
from muster.groups.applications import (
    Application,
    OwnerLoop,
    PolicyLabels,
    Unit,
    application_of,
    requires_policy,
    unit_of,
)
from muster.groups.grouping import Grouping
from muster.groups.propagation import BoundPolicy, PlacementRefusal
from muster.groups.quota_usage import TOP_SCORE, QuotaUsage
from muster.model.batch import APPLICATION_KINDS
from muster.model.custom import CustomApplication, custom_kinds
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, controller

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move

__all__ = ["Propagation"]

# kube-scheduler multiplies the scores of an extender (0 to 10) by this, to match its own (0 to 100).
_EXTENDER_FACTOR = 10

# Bound, not finished, not terminating; and in a cycle also tasks that are allocated or pipelined.
_COUNTED = (*ALLOCATED_LIKE, Status.PIPELINED, Status.UNKNOWN)


class Propagation(Plugin, NodeFilter, NodeScorer, Ledger):
    """Filters and scores nodes by the quotas of their node groups."""

    name = "propagation"
    scope = Scope.CLUSTER
    normalised = True
    # The owners of pods that policies divide.
    reads = (NodeGroup, PropagationPolicy, *APPLICATION_KINDS, CustomApplication)
    arguments = {"weight": "multiplies the score, which is 0 to 100 before (5, as suggested for the extender)"}

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self.weight = arguments.float("weight", 5.0, minimum=0.0)

    def open(self, session: Session) -> None:
        self.units = Units(session.state)

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        applications = [
            (f"{kind} {key}", app.metadata.labels)
            for kind in sorted(one.__name__ for one in (*APPLICATION_KINDS, *custom_kinds(state.objects)))
            for key, app in state.objects[kind].items()
        ]
        applications += [
            (f"Pod {task.key}", task.labels) for task in waiting(state) if not task.pod.metadata.owner_references
        ]
        for about, labels in applications:
            if name := labels.get(PolicyLabels.PROPAGATION.required):
                text = f"requires PropagationPolicy {name}"
                yield Requirement(about, text, hard=True, switch="enablePredicate")

    def signature(self, task: Task) -> Hashable | None:
        placement = self.units.of(task)
        return None if placement is None else placement.unit

    def batch(self, task: Task) -> Batch:
        placement = self.units.of(task)
        if placement is None:
            return Batch.SKIP
        numbered = not isinstance(placement.rule, PlacementRefusal) and placement.rule.quotas.replicas is not None
        return Batch.SINGLE if numbered else Batch.COLUMNS

    # --- the filter

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        placement = self.units.of(task)
        if placement is None:
            return Verdict(np.zeros(len(nodes), np.uint16))
        if isinstance(placement.rule, PlacementRefusal):
            everywhere: Bools = np.ones(len(nodes), np.bool_)
            return Verdict.of(everywhere, Reason(placement.rule.code, placement.rule.text, resolvable=False))
        usage = QuotaUsage(placement.rule.quotas, placement.counts, groups_without_nodes=placement.groups_without_nodes)
        outside = f"node is in no node group of PropagationPolicy {placement.rule.policy}"
        reasons = [Reason("no-group", usage.with_waiting(outside), resolvable=False)]
        codes = [1]  # for the index −1 of `group_of`: in no group
        for group in placement.groups:
            why = usage.refusal(group)
            if why is not None:
                reasons.append(Reason("group-full", why, resolvable=False))
            codes.append(0 if why is None else len(reasons))
        return Verdict(np.array(codes, np.uint16)[placement.group_of[nodes.index] + 1], reasons)

    # --- the score

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        placement = self.units.of(task)
        if placement is None or isinstance(placement.rule, PlacementRefusal):
            return np.zeros(len(nodes))
        usage = QuotaUsage(placement.rule.quotas, placement.counts)
        missing = [0, *(usage.missing(group) for group in placement.groups)]
        return np.array(missing, np.float64)[placement.group_of[nodes.index] + 1]

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        """Returns 0 to 10 in proportion to the pods that the node's group lacks, as the extender scores."""
        most = float(raw[candidates].max())
        if most <= 0:
            return np.zeros(len(raw))
        steps = np.floor(TOP_SCORE * np.minimum(raw, most) / most)
        return steps * (_EXTENDER_FACTOR * self.weight)

    def span(self) -> float | None:
        return TOP_SCORE * _EXTENDER_FACTOR * self.weight

    # --- the counts

    def allocated(self, move: Move) -> None:
        self.units.count(move, 1)

    def released(self, move: Move) -> None:
        self.units.count(move, -1)


class UnitPlacement(Struct):
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
        self._custom = frozenset(kind.__name__ for kind in custom_kinds(state.objects))
        self._owned: dict[tuple[str, ...], UnitPlacement | None] = {}  # by the controller that pods name
        self._placements: dict[Unit, UnitPlacement | None] = {}
        self._any = False
        self._placed: dict[Unit, list[Task]] | None = None
        self._group_of: dict[tuple[str, ...], Index] = {}

    @cached_property
    def _grouping(self) -> Grouping:
        objects, nodes = self._state.objects, self._state.nodes
        policies = {k: p for k, p in objects["PropagationPolicy"].items() if isinstance(p, PropagationPolicy)}
        groups = {k: g for k, g in objects["NodeGroup"].items() if isinstance(g, NodeGroup)}
        return Grouping(dict(zip(nodes.names, nodes.objects, strict=True)), groups, policies)

    def of(self, task: Task) -> UnitPlacement | None:
        """Returns the placement of the task's unit; None if no policy restricts it."""
        meta = task.pod.metadata
        owner = controller(meta) if meta.owner_references else None
        if owner is None:
            # A pod without an owner is its own application. Most have no such label, which is a cheap check.
            return self._find(task)[1] if requires_policy(meta.labels) else None
        at = (task.namespace, owner.api_version, owner.kind, owner.name, owner.uid)
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
            at = (task.namespace, owner.api_version, owner.kind, owner.name, owner.uid)
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
