"""Pods and gangs that the rules on node groups keep pending for ever, also in an empty cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.domains.demand import Demand, unplaced
from muster.engine.domains.domain_capacity import EmptyClusterCapacity
from muster.model.finding import Finding
from muster.model.quantity import display
from muster.plugins.nodegroup.annotations import LIMITS, ONE_GROUP, wants_one_group
from muster.plugins.nodegroup.rules import Rule, either

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.plugins.nodegroup import NodeGroup


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
    """Pods that alone ask for more than their queue may hold in a group. Equal pods get one finding."""
    seen: set[int] = set()
    for key, task in sorted(job.tasks.items()):
        if task.status == Status.PENDING and task.shape.id not in seen:
            seen.add(task.shape.id)
            yield from _too_much(plugin, job.queue_name, key, task)


def _too_much(plugin: NodeGroup, queue: str, key: str, task: Task) -> Iterator[Finding]:
    rule = plugin.rules.get(queue) or Rule(queue, queue)
    allowed = [groups for groups in plugin.grouping.classes if plugin.refusal(rule, groups) is None]
    over = [plugin.limits.exceeded(queue, groups, task.shape.amounts) for groups in allowed]
    exceeded = sorted({one for one in over if one is not None})
    if not exceeded:
        return
    group, resource = exceeded[0]
    most = plugin.limits.limits[queue][group][resource]
    message = (
        f"asks for {display(resource, task.shape.amounts[resource])} of {resource}, but queue {queue} may hold "
        f"{display(resource, most)} in node group {group} (annotation {LIMITS})"
    )
    if None in over:
        message += ": it can only use other nodes"
    fix = "raise the limit, or ask for less"
    yield Finding("warning" if None in over else "error", "", None, f"Pod {key}", "nodegroup-limit", message, fix)


def _one_group(
    plugin: NodeGroup, session: Session, capacity: EmptyClusterCapacity, job: Job, about: str
) -> Iterator[Finding]:
    """A gang that must be in one node group, and is larger than every group that its queue allows."""
    tasks, need = unplaced(job.tasks.values(), job.min_available)
    if not 0 < need <= len(tasks):
        return
    demand = Demand(session, tasks, need)
    allowed = plugin.allows(plugin.rules.get(job.queue_name) or Rule(job.queue_name, job.queue_name))
    tried: list[tuple[int, int, str]] = []
    for group in plugin.grouping.names:
        within = plugin.grouping.within((group,)) & allowed
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
    """The annotation belongs on the PodGroup: on its pods nobody reads it."""
    pods = [task.key for task in job.tasks.values() if task.pod.metadata.annotations.get(ONE_GROUP) == "true"]
    if pods:
        message = f"annotation {ONE_GROUP} has no effect on a pod: its PodGroup {job.key} does not have it"
        fix = f"move it to metadata.annotations of PodGroup {job.key}"
        yield Finding("error", "", None, f"Pod {min(pods)}", "nodegroup-on-pod", message, fix)
