"""Reads typed objects into the engine's tasks, jobs and queues: the annotations, defaults and counts of Volcano."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from muster.engine.core.jobs import Job, Queue, Shape, Status, Task
from muster.engine.core.native_groups import NativeSpec, record_of
from muster.engine.core.podgroups import QUEUE_NAME, derived_group, owner_of
from muster.groups.applications import Lookup
from muster.model.core import Namespace, Pod, PriorityClass
from muster.model.meta import Object, seconds
from muster.model.quantity import whole
from muster.model.requests import amounts
from muster.model.scheduling import PodGroup
from muster.model.scheduling import Queue as QueueObject

if TYPE_CHECKING:
    from muster.engine.core.described_groups import DescribedKinds

PREEMPTABLE = "volcano.sh/preemptable"
ROLE = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
ALLOCATION_GATE = "scheduling.volcano.sh/queue-allocation-gate"
# The annotation that muster writes on a pod behind that gate when its queue admits it.
ADMITTED = "muster.io/queue-admitted"

# Looked up for every pod: a member of an Enum is found slowly.
_PENDING, _BOUND, _RUNNING, _RELEASING = Status.PENDING, Status.BOUND, Status.RUNNING, Status.RELEASING
_TRUE, _FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}


def read_task(
    key: str, pod: Pod, shape: Shape, rank: Mapping[str, int], classes: Mapping[str, Object], like: Task | None = None
) -> Task:
    """Reads a pod. If it differs from the pod of `like` only in its name, times, node and status, it is in its job."""
    meta, spec, of = pod.metadata, pod.spec, None if like is None else like.pod.metadata
    if (
        like is not None and of is not None and shape is like.shape
        and meta.annotations == of.annotations and meta.labels == of.labels and meta.namespace == of.namespace
        and spec.scheduling_group is None and spec.workload_ref is None
    ):  # fmt: skip
        job, namespace, priority, role = like.job, like.namespace, like.priority, like.role
        preemptable, gated = like.preemptable, like.gated
    else:
        job, namespace, priority = None, meta.namespace or "default", priority_of(pod, classes)
        notes, labels = meta.annotations, meta.labels
        role = notes.get(ROLE) or labels.get(ROLE, "")
        preemptable, gated = is_preemptable(pod), is_gated(pod)
    node = rank.get(spec.node_name, -1) if spec.node_name else -1
    return Task(
        pod, key, namespace, shape, status_of(pod), node, seconds(meta.creation_timestamp),
        pod.status.nominated_node_name, shape.best_effort, priority, role, preemptable, gated, job,
    )  # fmt: skip


def is_preemptable(pod: Pod) -> bool:
    """Returns whether the pod's annotation or label allows its eviction."""
    meta = pod.metadata
    flag = meta.annotations.get(PREEMPTABLE, meta.labels.get(PREEMPTABLE))
    return flag is None or flag in _TRUE  # Volcano: what cannot be parsed is false


def is_gated(pod: Pod) -> bool:
    """Returns whether a scheduling gate keeps the pod pending.

    A pod behind the queue's gate is placed as if the gate were open: it counts against the queue.
    """
    return bool(pod.spec.scheduling_gates) and not waits_for_queue(pod)


def waits_for_queue(pod: Pod) -> bool:
    """Returns whether the only gate of the pod is the one that Volcano removes when the queue admits the pod."""
    gates = pod.spec.scheduling_gates
    gated = bool(gates) and pod.metadata.annotations.get(ALLOCATION_GATE) == "true"
    return gated and all(gate.name == ALLOCATION_GATE for gate in gates)


def priority_of(pod: Pod, classes: Mapping[str, Object]) -> int:
    """Returns the priority of the annotation, the spec or the class. Volcano: a pod without one has 1, not 0."""
    annotated = pod.metadata.annotations.get(TASK_PRIORITY, "") if pod.metadata.annotations else ""
    if (given := whole(annotated)) is not None:
        return given
    priority = pod.spec.priority
    if priority is None and pod.spec.priority_class_name:
        named = classes.get(pod.spec.priority_class_name)
        priority = named.value if isinstance(named, PriorityClass) else None
    return 1 if priority is None else priority


def status_of(pod: Pod) -> Status:
    phase = pod.status.phase
    if phase in ("Running", "Pending", ""):
        if pod.metadata.deletion_timestamp is not None:
            return _RELEASING
        if phase == "Running":
            return _RUNNING
        return _BOUND if pod.spec.node_name else _PENDING
    return {"Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED}.get(phase, Status.UNKNOWN)


def read_queue(key: str, object: QueueObject) -> Queue:
    spec = object.spec
    queue = Queue(key, object, seconds(object.metadata.creation_timestamp))
    queue.weight = max(spec.weight, 1)
    queue.priority = spec.priority
    queue.open = object.status.state in ("", "Open")
    queue.parent = spec.parent
    queue.reclaimable = spec.reclaimable is not False
    queue.fifo = spec.dequeue_strategy == "fifo"
    queue.capability = amounts(spec.capability, "spec.capability")
    queue.guarantee = amounts(spec.guarantee.resource, "spec.guarantee.resource") if spec.guarantee else {}
    queue.deserved = amounts(spec.deserved, "spec.deserved")
    queue.annotations = object.metadata.annotations
    return queue


def read_job(key: str, group: PodGroup, objects: Mapping[str, Mapping[str, Object]]) -> Job:
    spec = group.spec
    job = Job(key, group, seconds(group.metadata.creation_timestamp))
    job.queue_name = spec.queue or "default"
    if job.queue_name == "default" and not job.native:
        namespace = objects.get("Namespace", {}).get(job.namespace)
        if isinstance(namespace, Namespace):
            job.queue_name = namespace.metadata.annotations.get(QUEUE_NAME) or "default"
    if classes := objects.get("PriorityClass"):
        job.priority = group_priority(group, classes)
        job.has_priority_class = spec.priority_class_name in classes
    if isinstance(spec, NativeSpec):
        job.disrupted_whole, job.never_preempts = spec.disrupted_whole, spec.never_preempts
        if spec.priority is not None:  # Kubernetes writes the value of the class into the group
            job.priority, job.has_priority_class = spec.priority, True
    job.min_available = spec.min_member
    job.roles = dict(spec.min_task_member)
    given = spec.min_resources
    job.min_resources = None if given is None else amounts(given, "spec.minResources")
    job.phase = group.status.phase
    return job


def read_again(job: Job, objects: Mapping[str, Mapping[str, Object]]) -> None:
    """Reads the job's group again; its tasks stay."""
    fresh = read_job(job.key, job.group, objects)
    job.created, job.queue_name = fresh.created, fresh.queue_name
    job.priority, job.has_priority_class = fresh.priority, fresh.has_priority_class
    job.min_available = fresh.min_available
    job.disrupted_whole, job.never_preempts = fresh.disrupted_whole, fresh.never_preempts
    job.roles, job.min_resources, job.phase = fresh.roles, fresh.min_resources, fresh.phase
    job.mark_changed()


def group_priority(group: PodGroup, classes: Mapping[str, Object]) -> int:
    """Volcano: the priority of a job is that of its PodGroup's class, else of the default class, else 0."""
    named = classes.get(group.spec.priority_class_name)
    if isinstance(named, PriorityClass):
        return named.value
    defaults = [c.value for c in classes.values() if isinstance(c, PriorityClass) and c.global_default]
    return max(defaults) if defaults else 0


def native_group(job_key: str, objects: Mapping[str, Mapping[str, Object]], job: Job | None = None) -> PodGroup | None:
    """Returns the record of a native job with its phase by its pods and the scheduler's memory; None: it is gone."""
    group = record_of(job_key, objects)
    if group is not None:
        group.status.phase = phase_in_memory(job) if job is not None and job.tasks else "Pending"
    return group


def in_memory_group(task: Task, lookup: Lookup, described: DescribedKinds | None) -> PodGroup:
    """Returns the group of pods that name none, as it is while only this pod is known."""
    group = described.group_of([task.pod], lookup) if described is not None else None
    if group is None:
        group = derived_group(task.pod, task.shape.amounts, owner_of(task.pod, lookup))
    group.status.phase = "Pending" if task.status in (Status.PENDING, Status.RELEASING) else "Running"
    return group


def group_of_all(job: Job, lookup: Lookup, described: DescribedKinds | None) -> PodGroup:
    """Returns the group in memory of pods with one controller: as its oldest pod has it, whichever came first.

    An admission that the scheduler remembers stays while no pod runs.
    """
    tasks = sorted(job.tasks.values(), key=lambda task: (task.created, task.key))
    group = described.group_of([task.pod for task in tasks], lookup) if described is not None else None
    if group is None:
        group = in_memory_group(tasks[0], lookup, None)
    group.status.phase = phase_in_memory(job)
    return group


def phase_in_memory(job: Job) -> str:
    """Returns the phase of a group whose object keeps none."""
    waiting = job.count[Status.PENDING] + job.count[Status.RELEASING] == len(job.tasks)
    # "Running" stays, too, until a cycle finds it untrue: pods on their way out still count for that phase.
    remembered = job.phase if job.phase in ("Inqueue", "Running") else "Pending"
    return remembered if waiting else "Running"
