"""nodegroup: queues with hard and soft affinity to groups of nodes (design 1).

A queue's `spec.affinity` names groups that it requires, prefers, must not use or should avoid. Hard rules filter
(`enablePredicate`), soft rules score (`enableNodeOrder`); each works without the other. A group is a value of the node
label `volcano.sh/nodegroup-name`, or a NodeGroup object.

`rules` has the affinity of a queue, `group_classes` which node is in which group, `limits` how much of a group a queue
may use, `annotations` what is read besides the spec, `findings` the mistakes that an administrator must know. A rule is
evaluated once per queue and *class* of nodes (nodes in the same groups); each node has the result of its class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.engine.core.hooks import (
    Batch,
    Bools,
    Floats,
    Ledger,
    NodeFilter,
    NodeScorer,
    NodeSet,
    NodeSets,
    Plugin,
    Reason,
    Scope,
    Verdict,
)
from muster.engine.core.jobs import ALLOCATED_LIKE, Job, Queue, Shape, Status, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.requirements import Requirement, about
from muster.model.finding import Finding
from muster.model.groups import NodeGroup as NodeGroupObject
from muster.plugins.nodegroup.annotations import LIMITS, ONE_GROUP, AnnotationError, wants_one_group, weights_of
from muster.plugins.nodegroup.findings import Examination
from muster.plugins.nodegroup.group_classes import GroupClasses
from muster.plugins.nodegroup.limits import GroupLimits
from muster.plugins.nodegroup.rules import QueueRule, either, reading, rule_of

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move

__all__ = ["NodeGroup"]


class Ruling(Struct, frozen=True):
    """An evaluated rule of a queue: per class of nodes the verdict and the points."""

    codes: NDArray[np.uint16]
    reasons: list[Reason]
    points: Floats


class NodeGroup(Plugin, NodeFilter, NodeScorer, NodeSets, Ledger):
    name = "nodegroup"
    term = "affinity"
    scope = Scope.STATIC
    constraints_only = True
    arguments = {
        "strict": "true or false: Volcano's chart rules, where a group in no list is refused, and unlabelled nodes are "
        "open to queues without affinity only if false; not given: only the affinity of a queue restricts it",
        "enablePreferredOrder": "the order of the preferred list counts: the i-th of n has 50·(n−i)/n points (false)",
        "weight": "multiplies all points (1)",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        strict = arguments.bool("strict", True) if "strict" in arguments else None
        self.refusal = reading(strict)
        self.by_prose = strict is None
        self.ordered = arguments.bool("enablePreferredOrder", False)
        self.inherits = option.enabled("enableHierarchy")
        self.weight = arguments.float("weight", 1.0, minimum=0.0)
        self.limits = GroupLimits()
        self._seen: tuple[object, ...] = ()

    # --- the cluster's groups and queues

    def open(self, session: Session) -> None:
        state = session.state
        objects = {key: o for key, o in sorted(state.objects["NodeGroup"].items()) if isinstance(o, NodeGroupObject)}
        seen = (state.nodes, state.nodes.version, state.queues, tuple(objects.items()))
        if seen != self._seen:
            self._seen = seen
            queues = dict(sorted(state.queues.items()))
            self._read(queues)
            named = {g for rule in self.rules.values() for g in rule.named}
            named.update(g for limits in self.limits.limits.values() for g in limits)
            self.group_classes = GroupClasses(state.nodes, objects, named)
            self._rulings: dict[str, Ruling] = {}
            self.examination = Examination(self, state.nodes, queues)
        self.limits.open(state.queues, self.group_classes)
        session.warnings.extend(f"{f.object}: {f.message}" for f in self.examination.risks())

    def _read(self, queues: dict[str, Queue]) -> None:
        self.rules: dict[str, QueueRule] = {}
        self.weight_faults: dict[str, str] = {}
        for name, queue in queues.items():
            rule = rule_of(queue, queues, inherits=self.inherits, ordered=self.ordered)
            try:
                # The weights belong to the preferred list, so they are read from the queue that has the affinity.
                weights = weights_of(queues[rule.source])
            except AnnotationError as fault:
                self.weight_faults[rule.source], weights = str(fault), {}
            preferences = {group: weights.get(group, usual) for group, usual in rule.preferences.items()}
            self.rules[name] = replace(rule, preferences=preferences)
        self.limits.read(queues.values())
        # The queues with a rule or a limit; this plugin treats pods of all other queues alike.
        self._ruled = {name for name, rule in self.rules.items() if not rule.is_empty}
        self._ruled.update(self.limits.limits, self.limits.faults)

    # --- hard and soft rules

    def signature(self, task: Task) -> Hashable | None:
        queue = task.job.queue_name if task.job is not None else ""
        return queue if queue in self._ruled or not self.by_prose else None

    def signs(self, shape: Shape) -> bool:
        return bool(self._ruled) or not self.by_prose

    def batch(self, task: Task) -> Batch:
        return Batch.SKIP if self.by_prose and self._rule(task).is_empty else Batch.COLUMNS

    def filters(self) -> Sequence[NodeFilter]:
        return (self, self.limits)

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        ruling = self._ruling(self._rule(task))
        return Verdict(ruling.codes[self.group_classes.class_of[nodes.index]], ruling.reasons)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return self._ruling(self._rule(task)).points[self.group_classes.class_of[nodes.index]]

    def allows(self, rule: QueueRule) -> Bools:
        """Returns True for the nodes that the rule's queue may use."""
        open_: Bools = self._ruling(rule).codes == 0
        return open_[self.group_classes.class_of]

    def _rule(self, task: Task) -> QueueRule:
        queue = task.job.queue_name if task.job is not None else ""
        return self.rules.get(queue) or QueueRule(queue, queue)

    def _ruling(self, rule: QueueRule) -> Ruling:
        ruling = self._rulings.get(rule.queue)
        if ruling is None:
            codes, reasons = [], []
            for groups in self.group_classes.classes:
                reason = self.refusal(rule, groups)
                if reason is not None:
                    reasons.append(reason)
                codes.append(0 if reason is None else len(reasons))
            points = np.array([rule.score(groups) * self.weight for groups in self.group_classes.classes])
            ruling = self._rulings[rule.queue] = Ruling(np.array(codes, np.uint16), reasons, points)
        return ruling

    # --- a gang in one group

    set_order = "groups with pods of the gang first, then by the points of the queue, then by name"

    def divides(self, job: Job) -> bool:
        return wants_one_group(job)

    def node_sets(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> tuple[bool, list[NodeSet]]:
        """Tries a job with `muster.io/one-node-group` on one group after the other, most preferred first."""
        if not wants_one_group(job):
            return False, [nodes]
        rule = self.rules.get(job.queue_name) or QueueRule(job.queue_name, job.queue_name)
        allowed = self.allows(rule)
        placed = [t.node for t in job.tasks.values() if t.node >= 0 and t.status in (*ALLOCATED_LIKE, Status.PIPELINED)]
        found: list[tuple[int, NodeSet]] = []
        for group in self._by_preference(rule):
            inside = self.group_classes.within((group,))
            keep = (inside & allowed)[nodes.index]
            score = None if nodes.score is None else nodes.score[keep]
            if keep.any():
                label = f"{nodes.label} node group {group}".strip()
                found.append((int(inside[placed].sum()), NodeSet(nodes.index[keep], label, score)))
        # The rest of a gang goes to the group of its first members.
        most = max((here for here, _ in found), default=0)
        return True, [chosen for here, chosen in found if here == most]

    def _by_preference(self, rule: QueueRule) -> list[str]:
        """Returns the groups of the cluster by points (highest first), then in the order of the list, then by name."""
        listed = {group: i for i, group in enumerate((*rule.preferred, *rule.required))}
        return sorted(self.group_classes.names, key=lambda g: (-rule.score((g,)), listed.get(g, len(listed)), g))

    # --- the account of limited queues

    def allocated(self, move: Move) -> None:
        self.limits.count(move, 1)

    def released(self, move: Move) -> None:
        self.limits.count(move, -1)

    # --- findings

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for name, queue in state.queues.items():
            rule, who = rule_of(queue, state.queues, inherits=False, ordered=False), f"Queue {name}"
            for hard, text, groups in (
                (True, "requires node group", rule.required),
                (True, "must not use node group", rule.forbidden),
                (False, "prefers node group", rule.preferred),
                (False, "avoids node group", rule.avoided),
            ):
                if groups:
                    switch = "enablePredicate" if hard else "enableNodeOrder"
                    yield Requirement(who, f"{text} {either(groups)}", hard, switch)
            if LIMITS in queue.annotations:
                text = f"limits its use of node groups (annotation {LIMITS})"
                yield Requirement(who, text, hard=True, switch="enablePredicate")
        for job in state.jobs.values():
            if wants_one_group(job):
                text = f"requires one node group for all its pods (annotation {ONE_GROUP})"
                yield Requirement(about(job, state), text, hard=True)

    @classmethod
    def examine(cls, session: Session) -> list[Finding]:
        """Compares the session's queues with its groups and its other scorers, for `muster validate`."""
        found: list[Finding] = []
        for plugin in session.plugins:
            if isinstance(plugin, cls):
                others = [scorer for _, scorer in session.placement.scorers if scorer is not plugin]
                found += [*plugin.examination.risks(), *plugin.examination.remarks(session, others)]
        return found
