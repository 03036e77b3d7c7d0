"""The jobs of plain pods: pods without a PodGroup and an owner. Each of them is a job of one pod.

Plain pods that differ only in their names, times and nodes are of one kind: what follows from their specs, annotations
and labels is read once.
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


class PlainKind:
    """What plain pods of equal spec, annotations, labels and namespace share."""

    __slots__ = ("annotations", "like", "spec", "together")

    def __init__(self, task: Task) -> None:
        made = derived_group(task.pod, task.shape.amounts, None)
        self.spec = made.spec
        self.annotations = made.metadata.annotations
        # A job of this kind as the objects of the cluster make it; None: to be read.
        self.like: Job | None = None
        # Whether plugins give the jobs of this kind the same answers: see `single_jobs`.
        self.together = made.spec.min_member <= 1 and not task.role and not task.shape.spec.volumes


def plain_kind(task: Task) -> PlainKind:
    meta = task.pod.metadata
    notes, labels = meta.annotations, meta.labels
    key = (task.namespace, tuple(notes.items()) if notes else (), tuple(labels.items()) if labels else ())
    kind = task.shape.plain.get(key)
    if kind is None:
        kind = task.shape.plain[key] = PlainKind(task)
    return kind


def plain_group(task: Task, kind: PlainKind) -> PodGroup:
    """Returns the group of a plain pod. The groups of a kind share their spec and annotations."""
    meta = task.pod.metadata
    own = ObjectMeta(
        name=group_name(task.pod),
        namespace=meta.namespace or "default",
        creation_timestamp=meta.creation_timestamp,
        annotations=kind.annotations,
    )
    return PodGroup(metadata=own, spec=kind.spec)


def job_in_memory(
    key: str, task: Task, objects: Mapping[str, Mapping[str, Object]], lookup: Lookup, described: DescribedKinds | None
) -> Job:
    """Returns the job of a pod that names no group, without the pod."""
    kind = _kind_of(task, lookup, described)
    if kind is None:
        return read_job(key, in_memory_group(task, lookup, described), objects)
    group = plain_group(task, kind)
    group.status.phase = "Pending" if task.status in (Status.PENDING, Status.RELEASING) else "Running"
    like = kind.like
    if like is None:
        like = kind.like = read_job(key, group, objects)
    job = Job(key, group, task.created)
    job.kind, job.phase = kind, group.status.phase
    job.queue_name, job.priority, job.has_priority_class = like.queue_name, like.priority, like.has_priority_class
    job.min_available, job.min_resources = like.min_available, like.min_resources
    return job


def group_again(job: Job, lookup: Lookup, described: DescribedKinds | None) -> tuple[PodGroup, PlainKind | None]:
    """Returns the group in memory of a job whose pods or owner changed, and its kind if it is the job of a plain pod.
    """
    task = next(iter(job.tasks.values())) if len(job.tasks) == 1 else None
    kind = _kind_of(task, lookup, described) if task is not None else None
    if task is None or kind is None:
        return group_of_all(job, lookup, described), None
    group = plain_group(task, kind)
    group.status.phase = phase_in_memory(job)
    return group, kind


def _kind_of(task: Task, lookup: Lookup, described: DescribedKinds | None) -> PlainKind | None:
    """Returns the kind of a pod that names no group; None if it is no plain pod."""
    if task.pod.metadata.owner_references:
        return None
    if described is not None and described.group_of([task.pod], lookup) is not None:
        return None
    return plain_kind(task)
