"""Finds PodGroups that could never start: their queue does not exist, they have too few pods, or they need more than
their queue or the cluster can ever give; and sub-groups that are empty, unknown, or form a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from muster.config.names import nearest, suggest
from muster.engine.core.jobs import Job, Status
from muster.engine.core.resources import total_of
from muster.engine.core.session import Session
from muster.engine.core.subgroups import LABEL, sub_group_tree
from muster.engine.domains.demand import Demand, unplaced
from muster.engine.domains.domain_capacity import EmptyClusterCapacity
from muster.model.finding import Finding, Severity
from muster.model.quantity import display
from muster.validation.locator import Locator
from muster.validation.native_groups import of_another_scheduler, tree_findings

_GONE = (Status.RELEASING, Status.FAILED, Status.UNKNOWN)


def pod_group_findings(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks every PodGroup, the gangs of described workload kinds, and every job whose queue does not exist."""
    state = session.state
    capacity = EmptyClusterCapacity(session)
    for _, job in sorted(state.jobs.items()):
        written, described = state.group_object(job) is not None, state.described_owner(job) is not None
        if not written and not described and job.queue is not None:
            continue  # a pod without a group is checked by `pods`
        yield from _queue(session, job, locator)
        if written and not of_another_scheduler(session, job):
            yield from _members(session, job, locator)
            yield from _sub_groups(session, job, locator)
        if written or described:
            exceeding = list(_requests(session, job, locator))
            yield from exceeding or _usable_nodes(session, job, capacity, locator)
            yield from _priority(session, job, locator)


def _subject(job: Job, session: Session) -> tuple[str, str]:
    """Returns kind and key of the object to report: the PodGroup, its described owner, or the first of its pods."""
    return session.state.group_object(job) or session.state.described_owner(job) or ("Pod", min(job.tasks))


def _queue(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    if job.queue is None and (session.state.group_object(job) is not None or job.count[Status.PENDING]):
        message = f"queue {job.queue_name} does not exist: its pods wait for ever"
        fix = f"create the queue, or name another; {suggest(job.queue_name, session.queues)}"
        yield locator.finding("error", *_subject(job, session), "no-queue", message, fix)


def _members(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    members = [task for task in job.tasks.values() if task.status not in _GONE]
    if len(members) < job.min_available:
        number, named_by = "minMember", "with the annotation"
        if job.native:
            number, named_by = "gang.minCount", "that name the group"
            number = "the least number of pods of its groups" if job.group.spec.sub_groups else number
        message = f"{number} is {job.min_available}, but it has {len(members)} pods: it waits for more"
        fix = f"create {job.min_available - len(members)} more pods {named_by}, or lower {number}"
        yield locator.finding("warning", *_subject(job, session), "too-few-pods", message, fix)
    for role, minimum in sorted(job.roles.items()):
        count = sum(1 for task in members if task.role == role)
        if count < minimum:
            message = f"minTaskMember of {role} is {minimum}, but {count} of its pods have that role"
            fix = "give pods the annotation volcano.sh/task-spec, or lower the number"
            yield locator.finding("warning", *_subject(job, session), "too-few-pods", message, fix)


def _requests(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    """Checks minResources, which the enqueue action checks, and the smallest pods that reach minMember."""
    nodes, queue = session.state.nodes, job.queue
    if not len(nodes):
        return
    min_resources = job.min_resources if "enqueue" in session.config.actions and job.is_pending else None
    smallest, offered = _smallest(job), total_of(nodes)
    for what, needs in (("minResources requests", min_resources or {}), ("its smallest pods request", smallest)):
        for name, amount in sorted(needs.items()):
            limit = queue.capability.get(name) if queue is not None else None
            total = amount + (job.allocated.get(name, 0) if needs is smallest else 0)
            allocatable = offered.get(name, 0)
            if limit is not None and queue is not None and total > limit:
                request = f"{what} {display(name, total)} of {name} in all"
                message = f"{request}, more than the capability {display(name, limit)} of queue {queue.name}"
                fix = f"raise capability of queue {queue.name}, or request less"
                yield locator.finding("error", *_subject(job, session), "over-capability", message, fix)
            elif amount > allocatable:
                request = f"{what} {display(name, amount)} of {name} in all"
                message = f"{request}, more than all nodes have together ({display(name, allocatable)})"
                # Not every plugin that votes in enqueue compares minResources with the nodes.
                severity: Severity = "error" if needs is smallest else "warning"
                fix = "request less, or add nodes"
                yield locator.finding(severity, *_subject(job, session), "over-cluster", message, fix)


def _usable_nodes(session: Session, job: Job, capacity: EmptyClusterCapacity, locator: Locator) -> Iterator[Finding]:
    """Reports a gang that does not fit on the nodes that its queue and its pods may use, even if they are empty."""
    if job.min_available < 2 or not job.count[Status.PENDING] or not len(session.state.nodes):
        return
    tasks, need = unplaced(job.tasks.values(), job.min_available)
    if not 0 < need <= len(tasks):
        return
    lacking = Demand(session, tasks, need).lacking(capacity, np.ones(len(session.state.nodes), np.bool_))
    if lacking is not None and lacking[1]:  # `pods` reports a pod that fits on no node
        task, able, needed = lacking
        message = f"needs {needed} pods like {task.key}, but the nodes that they may use have room for {able} if empty"
        fix = "lower minMember, request less, or let the pods use more nodes"
        yield locator.finding("error", *_subject(job, session), "over-nodes", message, fix)


def _smallest(job: Job) -> dict[str, int]:
    """Returns per resource the least that the group still needs to reach minMember; `pods` checks single pods."""
    if job.min_available < 2:
        return {}
    tasks, need = unplaced(job.tasks.values(), job.min_available)
    if not 0 < need <= len(tasks):
        return {}
    requests = [task.shape.amounts for task in tasks]
    names = {name for amounts in requests for name in amounts}
    return {name: sum(sorted(amounts.get(name, 0) for amounts in requests)[:need]) for name in names}


def _priority(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    name = job.group.spec.priority_class_name
    classes = session.state.objects["PriorityClass"]
    if name and name not in classes and not name.startswith("system-"):
        message = f"priorityClassName is {name}, and there is no such PriorityClass: its priority is the default"
        yield locator.finding("warning", *_subject(job, session), "priority-class", message, suggest(name, classes))


def _sub_groups(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    spec = job.group.spec
    if spec.sub_groups:
        yield from _sub_group_parents(session, job, locator) if not job.native else tree_findings(job, locator)
        yield from _sub_group_members(session, job, locator) if not job.native else ()
    if spec.sub_group_policy and job.tasks:
        root = sub_group_tree(job)
        policies = root.children[-len(spec.sub_group_policy) :] if root is not None else []
        for policy in policies:
            if not policy.children:
                message = f"subGroupPolicy {policy.name} matches no pod of the group"
                fix = "correct labelSelector and matchLabelKeys, or label the pods"
                severity = _empty_severity(policy.least)
                yield locator.finding(severity, *_subject(job, session), "sub-group-empty", message, fix)


def _empty_severity(min_member: int | None) -> Severity:
    return "error" if min_member else "warning"


def _sub_group_parents(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    parents = {sub.name: sub.parent for sub in reversed(job.group.spec.sub_groups)}
    cyclic: set[str] = set()
    for i, sub in enumerate(job.group.spec.sub_groups):
        if sub.parent and sub.parent not in parents:
            message = f"the parent of sub-group {sub.name} is {sub.parent}, and there is no such sub-group"
            fix = suggest(sub.parent, [name for name in parents if name != sub.name])
            path = f"spec.subGroups[{i}].parent"
            yield locator.finding("error", *_subject(job, session), "sub-group-parent", message, fix, path)
        chain = [sub.name]
        while parents.get(chain[-1]) in parents and parents[chain[-1]] not in chain:
            chain.append(parents[chain[-1]])
        if parents.get(chain[-1]) == sub.name and sub.name not in cyclic:
            cyclic.update(chain)
            message = f"the sub-groups form a cycle: {' → '.join([*chain, sub.name])}"
            fix = "remove parent from one of them"
            path = f"spec.subGroups[{i}]"
            yield locator.finding("error", *_subject(job, session), "sub-group-cycle", message, fix, path)


def _sub_group_members(session: Session, job: Job, locator: Locator) -> Iterator[Finding]:
    if not job.tasks:
        return  # `_members` reports a group with too few pods
    subs = {sub.name: sub for sub in reversed(job.group.spec.sub_groups)}
    inner = {sub.parent for sub in subs.values()}
    pod_counts = Counter(task.labels.get(LABEL, "") for task in job.tasks.values())
    unknown = sorted(name for name in pod_counts if name and name not in subs)
    for i, sub in enumerate(job.group.spec.sub_groups):
        if sub.name in inner or sub is not subs[sub.name]:
            continue
        path = f"spec.subGroups[{i}]"
        if not pod_counts[sub.name]:
            near = nearest(sub.name, unknown)
            message = f"no pod of the group names sub-group {sub.name}"
            message += f", which needs {sub.min_member}" if sub.min_member else ""
            fix = f"label pods {LABEL}: {sub.name}" + (f" (pods have {near}: did you mean it?)" if near else "")
            severity = _empty_severity(sub.min_member)
            yield locator.finding(severity, *_subject(job, session), "sub-group-empty", message, fix, path)
        elif pod_counts[sub.name] < sub.min_member:
            message = f"minMember of sub-group {sub.name} is {sub.min_member}, but {pod_counts[sub.name]} pods name it"
            fix = f"label more pods {LABEL}: {sub.name}, or lower the number"
            yield locator.finding("warning", *_subject(job, session), "too-few-pods", message, fix, path)
    for name in unknown:
        pod = min(key for key, task in job.tasks.items() if task.labels.get(LABEL) == name)
        message = f"names sub-group {name}, which PodGroup {job.shown} does not have: it is in no sub-group"
        yield locator.finding("warning", "Pod", pod, "sub-group-unknown", message, suggest(name, subs))
