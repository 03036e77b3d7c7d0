"""The jobs of plain pods: pods without a PodGroup and an owner. Each of them is a job of one pod.

Plain pods that differ only in their names, labels, times and nodes are of one class: what follows from their specs and
annotations is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.podgroups import derived_group, group_name
from muster.engine.core.reading import group_of_all, in_memory_group, phase_in_memory, read_job
from muster.groups.applications import Lookup
from muster.model.meta import Object, ObjectMeta
from muster.model.scheduling import PodGroup

if TYPE_CHECKING:
    from muster.engine.core.described_groups import DescribedKinds


class PlainPodClass:
    """What plain pods of equal spec, annotations, role and namespace share."""

    __slots__ = ("annotations", "read", "spec", "together")

    def __init__(self, task: Task) -> None:
        made = derived_group(task.pod, task.shape.amounts, None)
        self.spec = made.spec
        self.annotations = made.metadata.annotations
        # What the objects of the cluster say about its jobs; None: to be read.
        self.read: tuple[str, int, bool, int, dict[str, int] | None] | None = None
        # Whether plugins give jobs of this class with equal labels the same answers: see `single_jobs`.
        self.together = made.spec.min_member <= 1 and not task.role and not task.shape.spec.volumes


def plain_pod_class(task: Task) -> PlainPodClass:
    meta = task.pod.metadata
    notes = meta.annotations
    key = (task.namespace, task.role, tuple(notes.items()) if notes else ())
    pod_class = task.shape.plain.get(key)
    if pod_class is None:
        pod_class = task.shape.plain[key] = PlainPodClass(task)
    return pod_class


def plain_group(task: Task, pod_class: PlainPodClass) -> PodGroup:
    """Returns the group of a plain pod. The groups of a class share their spec and annotations."""
    meta = task.pod.metadata
    own = ObjectMeta(
        name=group_name(task.pod),
        namespace=meta.namespace or "default",
        creation_timestamp=meta.creation_timestamp,
        annotations=pod_class.annotations,
    )
    return PodGroup(metadata=own, spec=pod_class.spec)


def job_in_memory(
    key: str, task: Task, objects: Mapping[str, Mapping[str, Object]], lookup: Lookup, described: DescribedKinds | None
) -> Job:
    """Returns the job of a pod that names no group, without the pod."""
    pod_class = _class_of(task, lookup, described)
    if pod_class is None:
        return read_job(key, in_memory_group(task, lookup, described), objects)
    group = plain_group(task, pod_class)
    group.status.phase = "Pending" if task.status in (Status.PENDING, Status.RELEASING) else "Running"
    if pod_class.read is None:
        job = read_job(key, group, objects)
        pod_class.read = job.queue_name, job.priority, job.has_priority_class, job.min_available, job.min_resources
    else:
        job = Job(key, group, task.created)
        job.queue_name, job.priority, job.has_priority_class, job.min_available, job.min_resources = pod_class.read
        job.phase = group.status.phase
    job.plain_class = pod_class
    return job


def group_again(job: Job, lookup: Lookup, described: DescribedKinds | None) -> tuple[PodGroup, PlainPodClass | None]:
    """Returns the group in memory of a job whose pods or owner changed, and its class if it is the job of a plain pod.
    """
    task = next(iter(job.tasks.values())) if len(job.tasks) == 1 else None
    pod_class = _class_of(task, lookup, described) if task is not None else None
    if task is None or pod_class is None:
        return group_of_all(job, lookup, described), None
    group = plain_group(task, pod_class)
    group.status.phase = phase_in_memory(job)
    return group, pod_class


def _class_of(task: Task, lookup: Lookup, described: DescribedKinds | None) -> PlainPodClass | None:
    """Returns the class of a pod that names no group; None if it is no plain pod."""
    if task.pod.metadata.owner_references:
        return None
    if described is not None and described.group_of([task.pod], lookup) is not None:
        return None
    return plain_pod_class(task)
