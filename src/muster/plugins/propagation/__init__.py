"""propagation: divides the pods of an application among node groups by its PropagationPolicy (design 5).

An application names a policy with a label. Once a controller has bound it, its pods go to nodes of the policy's groups,
to a group below its quota (`enablePredicate`), and preferably to a group that lacks more pods (`enableNodeOrder`). The
rules are those of `muster.groups`, which the scheduler extender uses as well.
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
from muster.model.custom import CustomApplication, custom_kinds
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.plugins.propagation.units import Units

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move

__all__ = ["Propagation"]

# kube-scheduler multiplies the scores of an extender (0 to 10) by this, to match its own (0 to 100).
_EXTENDER_FACTOR = 10


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
