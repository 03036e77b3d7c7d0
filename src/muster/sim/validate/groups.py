"""PodGroups that could never start: no queue, too few pods, more than the queue or the cluster could ever give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.config.names import suggest
from muster.engine.core.axis import exact_sum, show
from muster.engine.core.jobs import Job, Queue, Status
from muster.engine.core.session import Session
from muster.engine.domains.demand import Demand, unplaced
from muster.engine.domains.room import EmptyRoom
from muster.model.finding import Finding, Severity
from muster.sim.validate.places import Located
from muster.sim.validate.subgroups import sub_group_findings

_GONE = (Status.RELEASING, Status.FAILED, Status.UNKNOWN)


def group_findings(session: Session, where: Located) -> Iterator[Finding]:
    state = session.state
    room = EmptyRoom(session)
    for key, job in sorted(state.jobs.items()):
        if key not in state.objects["PodGroup"] and job.queue is not None:
            continue  # a pod by itself: `pods` looks at it
        yield from _queue(session, job, where)
        if key in state.objects["PodGroup"]:
            yield from _members(job, where)
            yield from sub_group_findings(job, where)
            over = list(_room(session, job, where))
            yield from over or _usable(session, job, room, where)
            yield from _priority(session, job, where)


def _subject(job: Job, session: Session) -> tuple[str, str]:
    """The object to name: the PodGroup, or the first pod of a group in memory."""
    if job.key in session.state.objects["PodGroup"]:
        return "PodGroup", job.key
    return "Pod", min(job.tasks)


def _queue(session: Session, job: Job, where: Located) -> Iterator[Finding]:
    named = job.key in session.state.objects["PodGroup"]
    if job.queue is None and (named or job.count[Status.PENDING]):
        message = f"queue {job.queue_name} does not exist: its pods wait for ever"
        fix = f"create the queue, or name another; {suggest(job.queue_name, session.queues)}"
        yield where.say("error", *_subject(job, session), "no-queue", message, fix)


def _members(job: Job, where: Located) -> Iterator[Finding]:
    there = [task for task in job.tasks.values() if task.status not in _GONE]
    if len(there) < job.min_available:
        message = f"minMember is {job.min_available}, but it has {len(there)} pods: it waits for more"
        fix = f"create {job.min_available - len(there)} more pods with the annotation, or lower minMember"
        yield where.say("warning", "PodGroup", job.key, "too-few-pods", message, fix)
    for role, least in sorted(job.roles.items()):
        count = sum(1 for task in there if task.role == role)
        if count < least:
            message = f"minTaskMember of {role} is {least}, but {count} of its pods have that role"
            fix = "give pods the annotation volcano.sh/task-spec, or lower the number"
            yield where.say("warning", "PodGroup", job.key, "too-few-pods", message, fix)


def _room(session: Session, job: Job, where: Located) -> Iterator[Finding]:
    """minResources, which enqueue is asked about, and the smallest pods that make the minimum."""
    nodes, queue = session.state.nodes, job.queue
    if not len(nodes):
        return
    asked = job.min_resources if "enqueue" in session.config.actions and job.is_pending else None
    smallest = _smallest(job)
    for what, needs in (("minResources asks", asked or {}), ("its smallest pods ask", smallest)):
        for name, amount in sorted(needs.items()):
            limit = queue.capability.get(name) if queue is not None else None
            in_all = amount + (job.allocated.get(name, 0) if needs is smallest else 0)
            row = nodes.axis.rows.get(name)
            there = exact_sum(nodes.alloc[row]) if row is not None else 0
            if limit is not None and queue is not None and in_all > limit:
                said = f"{what} for {show(name, in_all)} of {name} in all"
                message = f"{said}, more than the capability {show(name, limit)} of queue {queue.name}"
                yield where.say("error", "PodGroup", job.key, "over-capability", message, _fix(queue))
            elif amount > there:
                said = f"{what} for {show(name, amount)} of {name} in all"
                message = f"{said}, more than all nodes have together ({show(name, there)})"
                # Not each plugin that has a vote in enqueue holds minResources against the nodes.
                severity: Severity = "error" if needs is smallest else "warning"
                yield where.say(severity, "PodGroup", job.key, "over-cluster", message, "ask for less, or add nodes")


def _usable(session: Session, job: Job, room: EmptyRoom, where: Located) -> Iterator[Finding]:
    """A gang that is larger than the nodes that its queue's rules and its pods' own rules leave it."""
    if job.min_available < 2 or not job.count[Status.PENDING] or not len(session.state.nodes):
        return
    tasks, need = unplaced(job.tasks.values(), job.min_available)
    if not 0 < need <= len(tasks):
        return
    lacking = Demand(session, tasks, need).lacking(room, np.ones(len(session.state.nodes), np.bool_))
    if lacking is not None and lacking[1]:  # a pod that no node could take at all is reported by itself
        task, able, least = lacking
        message = f"needs {least} pods like {task.key}, but the nodes that they may use have room for {able} if empty"
        fix = "lower minMember, ask for less, or let the pods use more nodes"
        yield where.say("error", "PodGroup", job.key, "over-nodes", message, fix)


def _fix(queue: Queue) -> str:
    return f"raise capability of queue {queue.name}, or ask for less"


def _smallest(job: Job) -> dict[str, int]:
    """Per resource the least that the group needs up to minMember beside what it has; `pods` looks at single pods."""
    if job.min_available < 2:
        return {}
    tasks, need = unplaced(job.tasks.values(), job.min_available)
    if not 0 < need <= len(tasks):
        return {}
    requests = [task.shape.amounts for task in tasks]
    names = {name for amounts in requests for name in amounts}
    return {name: sum(sorted(amounts.get(name, 0) for amounts in requests)[:need]) for name in names}


def _priority(session: Session, job: Job, where: Located) -> Iterator[Finding]:
    name = job.group.spec.priority_class_name
    classes = session.state.classes()
    if name and name not in classes and not name.startswith("system-"):
        message = f"priorityClassName is {name}, and there is no such PriorityClass: its priority is the default"
        yield where.say("warning", "PodGroup", job.key, "priority-class", message, suggest(name, classes))
