"""PodGroups that could never start: no queue, too few pods, more than the queue or the cluster could ever give."""

from __future__ import annotations

from collections.abc import Iterator

from muster.config.names import suggest
from muster.engine.axis import exact_sum, show
from muster.engine.jobs import Job, Queue, Status
from muster.engine.session import Session
from muster.model.finding import Finding
from muster.sim.validate.places import Located

_GONE = (Status.RELEASING, Status.FAILED, Status.UNKNOWN)


def group_findings(session: Session, where: Located) -> Iterator[Finding]:
    state = session.state
    for key, job in sorted(state.jobs.items()):
        if key not in state.objects["PodGroup"] and job.queue is not None:
            continue  # a pod by itself: `pods` looks at it
        yield from _queue(session, job, where)
        if key in state.objects["PodGroup"]:
            yield from _members(job, where)
            yield from _room(session, job, where)
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
    axis, alloc = session.state.axis, session.state.nodes.alloc
    if not len(session.state.nodes):
        return
    total = {name: exact_sum(alloc[row]) for name, row in axis.rows.items()}
    for what, needs in (("minResources", job.min_resources or {}), ("its smallest pods", _smallest(job))):
        for name, amount in sorted(needs.items()):
            limit = job.queue.capability.get(name) if job.queue is not None else None
            said = f"{what} ask{'s' * (what == 'minResources')} for {show(name, amount)} of {name} in all"
            if limit is not None and amount > limit:
                assert job.queue is not None
                message = f"{said}, more than the capability {show(name, limit)} of queue {job.queue.name}"
                yield where.say("error", "PodGroup", job.key, "over-capability", message, _fix(job.queue))
            elif amount > total.get(name, 0):
                message = f"{said}, more than all nodes have together ({show(name, total.get(name, 0))})"
                yield where.say("error", "PodGroup", job.key, "over-cluster", message, "ask for less, or add nodes")


def _fix(queue: Queue) -> str:
    return f"raise capability of queue {queue.name}, or ask for less"


def _smallest(job: Job) -> dict[str, int]:
    """Per resource the least that minMember pods of the group need."""
    there = [task.shape.amounts for task in job.tasks.values() if task.status not in _GONE]
    if len(there) < job.min_available:
        return {}
    names = {name for amounts in there for name in amounts}
    return {name: sum(sorted(a.get(name, 0) for a in there)[: job.min_available]) for name in names}


def _priority(session: Session, job: Job, where: Located) -> Iterator[Finding]:
    name = job.group.spec.priority_class_name
    classes = session.state.classes()
    if name and name not in classes and not name.startswith("system-"):
        message = f"priorityClassName is {name}, and there is no such PriorityClass: its priority is the default"
        yield where.say("warning", "PodGroup", job.key, "priority-class", message, suggest(name, classes))
