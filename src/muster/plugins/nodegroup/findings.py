"""Findings about queues and node groups that would keep pods pending.

`risks` are reported by `validate` and by the running scheduler: a queue that matches no node, that names a missing
group, or that is promised more than its groups have (the design's "risk"). `remarks` are for `validate` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from math import floor
from typing import TYPE_CHECKING

from muster.engine.core.hooks import NodeScorer
from muster.engine.core.jobs import Job, Queue, Status, Task
from muster.engine.core.nodes import Nodes
from muster.engine.core.resources import exact_sum
from muster.engine.domains.demand import Demand, unplaced
from muster.engine.domains.domain_capacity import EmptyClusterCapacity
from muster.model.finding import Finding
from muster.model.quantity import display
from muster.plugins.nodegroup.annotations import LIMITS, ONE_GROUP, AnnotationError, wants_one_group, weights_of
from muster.plugins.nodegroup.group_classes import LABEL
from muster.plugins.nodegroup.rules import ROOT, QueueRule, either, with_affinity

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.plugins.nodegroup import NodeGroup


class Examination:
    """Compares the queues of one cluster with its groups."""

    def __init__(self, plugin: NodeGroup, nodes: Nodes, queues: Mapping[str, Queue]) -> None:
        self.plugin = plugin
        self.nodes = nodes
        self.queues = queues

    def risks(self) -> list[Finding]:
        return self._risks

    @cached_property
    def _risks(self) -> list[Finding]:
        found = [*self._conflicts()]
        for name, queue in self.queues.items():
            rule = self.plugin.rules[name]
            found += self._names(rule)
            found += self._capacity(rule, queue)
        return [*found, *self._annotations()]

    def remarks(self, session: Session, others: Sequence[NodeScorer]) -> list[Finding]:
        """Returns rules whose points other scorers can outweigh, and annotations that are neither true nor false."""
        found = [remark for rule in self.plugin.rules.values() if (remark := self._outweighed(rule, others))]
        found += [*self._not_inherited(), *impossible(self.plugin, session)]
        for job in session.jobs.values():
            value = job.group.metadata.annotations.get(ONE_GROUP, "false")
            if value not in ("true", "false"):
                message = f'annotation {ONE_GROUP} is {value!r}: only "true" turns it on'
                found.append(_warning(f"PodGroup {job.shown}", "nodegroup-annotation", message, 'write "true"'))
        return found

    # --- names

    def _conflicts(self) -> Iterator[Finding]:
        for name in self.plugin.group_classes.conflicts:
            message = f"node group {name} is both a value of the node label {LABEL} and a NodeGroup with other nodes"
            fix = "the label wins here; make both name the same nodes, or rename one"
            yield _warning(f"NodeGroup {name}", "nodegroup-conflict", message, fix)

    def _names(self, rule: QueueRule) -> Iterator[Finding]:
        """Yields groups that the queue names and that do not exist, have another spelling, or are empty."""
        group_classes = self.plugin.group_classes
        own = rule.named if rule.source == rule.queue else ()  # an inherited rule is checked at its own queue
        for name in dict.fromkeys((*own, *self.plugin.limits.limits.get(rule.queue, {}))):
            resolved = group_classes.resolved.get(name)
            if name in group_classes.labelled or (resolved == name and group_classes.within((name,)).any()):
                continue
            if resolved is None:
                message = f"names node group {name}, which is on no node and no NodeGroup has that name"
                near = get_close_matches(name, [*group_classes.labelled, *group_classes.objects], 1, 0.6)
                fix = f"did you mean {near[0]}?" if near else f"label its nodes {LABEL}={name}"
                yield _warning(f"Queue {rule.queue}", "nodegroup-unknown", message, fix)
            elif not group_classes.within((name,)).any():
                message = f"names node group {name}, but NodeGroup {resolved} contains no node"
                yield _warning(f"Queue {rule.queue}", "nodegroup-empty", message, "add nodes to the group")
            else:
                message = f"names node group {name}; using NodeGroup {resolved}"
                yield _warning(f"Queue {rule.queue}", "nodegroup-case", message, f"write {resolved}")

    # --- capacity

    def _capacity(self, rule: QueueRule, queue: Queue) -> Iterator[Finding]:
        about = f"Queue {queue.name}"
        if rule.is_empty and (self.plugin.by_prose or self._is_above_others(queue) or queue.unused):
            return
        allowed = self.plugin.allows(rule)
        if not allowed.any():
            named = rule.required or rule.named
            wants = f"of node group {either(named)}" if named else "(it names no node group, and `strict` is set)"
            fix = f"label nodes {LABEL}=<group>, or change the queue's affinity"
            yield _warning(about, "nodegroup-no-node", f"can use no node {wants}: its pods will wait", fix)
            return
        axis = self.nodes.axis
        promises = (("capability", queue.capability), ("guarantee", queue.guarantee), ("deserved", queue.deserved))
        for what, amounts in promises:
            for resource, amount in sorted(amounts.items()):
                row = axis.rows.get(resource)
                offered = exact_sum(self.nodes.alloc[row][allowed]) if row is not None else 0
                if amount > offered:
                    message = (
                        f"{what} of {resource} is {display(resource, amount)}, but the nodes it may use "
                        f"({_groups(rule)}) hold {display(resource, offered)}"
                    )
                    fix = f"lower {what}, or let the queue use more node groups"
                    yield _warning(about, f"nodegroup-{what}", message, fix)

    def _is_above_others(self, queue: Queue) -> bool:
        """Returns whether the queue is the root or has child queues: such queues have no pods that could wait."""
        return queue.name == ROOT or any(other.parent == queue.name for other in self.queues.values())

    def _not_inherited(self) -> Iterator[Finding]:
        """Yields queues below a queue with an affinity, which they inherit only with enableHierarchy."""
        if self.plugin.inherits:
            return
        for name, queue in self.queues.items():
            above = with_affinity(queue, self.queues)
            if above is not queue:
                message = f"queue {above.name} above it has a node group affinity, which does not hold for this queue"
                fix = "set enableHierarchy: true for plugin nodegroup, or give the queue its own affinity"
                yield _warning(f"Queue {name}", "nodegroup-hierarchy", message, fix)

    # --- annotations

    def _annotations(self) -> Iterator[Finding]:
        for name, fault in self.plugin.limits.faults.items():
            fix = "correct the JSON; until then nothing of the queue is scheduled"
            yield Finding("error", "", None, f"Queue {name}", "nodegroup-limits", f"annotation {fault}", fix)
        for name, fault in self.plugin.weight_faults.items():
            fix = "correct the JSON; until then every preferred group has its usual points"
            yield _warning(f"Queue {name}", "nodegroup-weights", f"annotation {fault}", fix)
        for name, queue in self.queues.items():
            rule = self.plugin.rules[name]
            for group in _weights(queue):
                if rule.source == name and group not in rule.preferred:
                    message = f"gives a weight to node group {group}, which is not in its preferred list: ignored"
                    yield _warning(f"Queue {name}", "nodegroup-weights", message, "add it to the list")

    # --- points

    def _outweighed(self, rule: QueueRule, others: Sequence[NodeScorer]) -> Finding | None:
        """The design's "first" (rules 2 and 4) is certain only if no other scorer can reverse the order."""
        plugin = self.plugin
        levels = sorted({rule.score(c) for c in plugin.group_classes.classes if plugin.refusal(rule, c) is None})
        step = min((above - below for below, above in pairwise(levels)), default=0.0)
        span = sum(scorer.span() or 0.0 for scorer in others)
        if not step or span < step * plugin.weight or not plugin.option.enabled("enableNodeOrder"):
            return None
        needed = floor(span / step) + 1
        message = (
            f"its groups differ by {step * plugin.weight:g} points, other scorers by up to {span:g}: a node group that "
            "is preferred may sometimes come second"
        )
        fix = f"give plugin nodegroup the argument weight: {needed}"
        return _warning(f"Queue {rule.queue}", "nodegroup-outweighed", message, fix)


def _weights(queue: Queue) -> dict[str, float]:
    try:
        return weights_of(queue)
    except AnnotationError:
        return {}  # already reported


def _groups(rule: QueueRule) -> str:
    if rule.is_empty:
        return "those in no node group"
    if rule.required:
        return f"node group {either(rule.required, 'and')}"
    barred = rule.forbidden
    return f"all but node group {either(barred, 'and')}" if barred else f"by its rule on {either(rule.named, 'and')}"


def _warning(about: str, code: str, message: str, fix: str) -> Finding:
    return Finding("warning", "", None, about, code, message, fix)


def impossible(plugin: NodeGroup, session: Session) -> Iterator[Finding]:
    capacity = EmptyClusterCapacity(session)
    written = session.state.objects["PodGroup"]
    for key, job in session.jobs.items():
        if job.count[Status.PENDING]:
            if job.queue_name in plugin.limits.limits:
                yield from _limited(plugin, job)
            if wants_one_group(job):
                about = f"PodGroup {key}" if key in written else f"Pod {min(job.tasks)}"
                yield from _one_group(plugin, session, capacity, job, about)
            elif key in written:
                yield from _on_pods(job)


def _limited(plugin: NodeGroup, job: Job) -> Iterator[Finding]:
    """Yields pods that request more than their queue may use in a group. Equal pods get one finding."""
    seen: set[int] = set()
    for key, task in sorted(job.tasks.items()):
        if task.status == Status.PENDING and task.shape.id not in seen:
            seen.add(task.shape.id)
            yield from _too_much(plugin, job.queue_name, key, task)


def _too_much(plugin: NodeGroup, queue: str, key: str, task: Task) -> Iterator[Finding]:
    rule = plugin.rules.get(queue) or QueueRule(queue, queue)
    allowed = [groups for groups in plugin.group_classes.classes if plugin.refusal(rule, groups) is None]
    over = [plugin.limits.exceeded(queue, groups, task.shape.amounts) for groups in allowed]
    exceeded = sorted({one for one in over if one is not None})
    if not exceeded:
        return
    group, resource = exceeded[0]
    most = plugin.limits.limits[queue][group][resource]
    message = (
        f"requests {display(resource, task.shape.amounts[resource])} of {resource}, but queue {queue} may hold "
        f"{display(resource, most)} in node group {group} (annotation {LIMITS})"
    )
    if None in over:
        message += ": it can only use other nodes"
    fix = "raise the limit, or request less"
    yield Finding("warning" if None in over else "error", "", None, f"Pod {key}", "nodegroup-limit", message, fix)


def _one_group(
    plugin: NodeGroup, session: Session, capacity: EmptyClusterCapacity, job: Job, about: str
) -> Iterator[Finding]:
    """Yields a gang that must be in one node group and is larger than every group that its queue allows."""
    tasks, need = unplaced(job.tasks.values(), job.min_available)
    if not 0 < need <= len(tasks):
        return
    demand = Demand(session, tasks, need)
    allowed = plugin.allows(plugin.rules.get(job.queue_name) or QueueRule(job.queue_name, job.queue_name))
    tried: list[tuple[int, int, str]] = []
    for group in plugin.group_classes.names:
        within = plugin.group_classes.within((group,)) & allowed
        lacking = demand.lacking(capacity, within) if within.any() else (tasks[0], 0, need)
        if lacking is None:
            return
        tried.append((lacking[1], lacking[2], group))
    fix = "lower minMember, enlarge a group, or let the queue use more groups"
    if not tried:
        message = f"must be in one node group ({ONE_GROUP}), and there is none"
    else:
        able, least, group = max(tried)
        names = either(sorted(group for _, _, group in tried), "and")
        message = (
            f"must be in one node group ({ONE_GROUP}), and no group is large enough ({names}): "
            f"{group}, if it were empty, has room for {able} of {least} pods"
        )
    yield Finding("error", "", None, about, "nodegroup-too-large", message, fix)


def _on_pods(job: Job) -> Iterator[Finding]:
    """Yields pods with the annotation. It belongs on the PodGroup; on a pod it has no effect."""
    pods = [task.key for task in job.tasks.values() if task.pod.metadata.annotations.get(ONE_GROUP) == "true"]
    if pods:
        message = f"annotation {ONE_GROUP} has no effect on a pod: its PodGroup {job.shown} does not have it"
        fix = f"move it to metadata.annotations of PodGroup {job.shown}"
        yield Finding("error", "", None, f"Pod {min(pods)}", "nodegroup-on-pod", message, fix)
