"""propagation: pods of one application divided among node groups, as a PropagationPolicy says (design 5).

A pod's application asks for a policy with a label; once a controller has bound it, pods go to nodes of the policy's
groups, to a group that has not its number yet (`enablePredicate`), and rather to one that lacks more
(`enableNodeOrder`). The rules are those of `muster.groups`, which the scheduler extender follows, too. `units` counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import (
    Batch,
    Bools,
    Floats,
    Ledger,
    NodeFilter,
    NodeScorer,
    Plugin,
    Reason,
    Scope,
    Verdict,
)
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.requirements import Requirement, waiting
from muster.groups.binding import PolicyLabels
from muster.groups.policies import PlacementRefusal
from muster.groups.quota_usage import TOP_SCORE, QuotaUsage
from muster.model.batch import APPLICATION_KINDS
from muster.model.custom import custom_kinds
from muster.plugins.propagation.units import Units

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move

__all__ = ["Propagation"]

# kube-scheduler multiplies what an extender says with this, so that 0 to 10 stands beside its own 0 to 100.
_EXTENDER_FACTOR = 10


class Propagation(Plugin, NodeFilter, NodeScorer, Ledger):
    name = "propagation"
    scope = Scope.CLUSTER
    normalised = True
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
        ruled = self.units.of(task)
        return None if ruled is None else ruled.unit

    def batch(self, task: Task) -> Batch:
        ruled = self.units.of(task)
        if ruled is None:
            return Batch.SKIP
        numbered = not isinstance(ruled.ruling, PlacementRefusal) and ruled.ruling.quotas.replicas is not None
        return Batch.SINGLE if numbered else Batch.COLUMNS

    # --- the filter

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        ruled = self.units.of(task)
        if ruled is None:
            return Verdict(np.zeros(len(nodes), np.uint16))
        if isinstance(ruled.ruling, PlacementRefusal):
            everywhere: Bools = np.ones(len(nodes), np.bool_)
            return Verdict.of(everywhere, Reason(ruled.ruling.code, ruled.ruling.text, resolvable=False))
        usage = QuotaUsage(ruled.ruling.quotas, ruled.counts, groups_without_nodes=ruled.groups_without_nodes)
        outside = f"node is in no node group of PropagationPolicy {ruled.ruling.policy}"
        reasons = [Reason("no-group", usage.with_waiting(outside), resolvable=False)]
        codes = [1]  # the last place of `group_of` is −1: in no group
        for group in ruled.groups:
            why = usage.refusal(group)
            if why is not None:
                reasons.append(Reason("group-full", why, resolvable=False))
            codes.append(0 if why is None else len(reasons))
        return Verdict(np.array(codes, np.uint16)[ruled.group_of[nodes.index] + 1], reasons)

    # --- the score

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        ruled = self.units.of(task)
        if ruled is None or isinstance(ruled.ruling, PlacementRefusal):
            return np.zeros(len(nodes))
        usage = QuotaUsage(ruled.ruling.quotas, ruled.counts)
        lacks = [0, *(usage.missing(group) for group in ruled.groups)]
        return np.array(lacks, np.float64)[ruled.group_of[nodes.index] + 1]

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        """0 to 10 by how much of the greatest lack among the candidates a node's group has, as the extender says it."""
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
