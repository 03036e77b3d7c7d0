"""Jobs of one pending pod, by kind. Jobs of one kind differ only in their names and times.

Every pod without a group and an owner is such a job. All plugins of muster give the jobs of a kind the same answers, as
long as these do not depend on time, so that actions ask about one of them and decide about many. Plugins of other
packages may look at names: with one of them jobs have no kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from muster.engine.core.jobs import Job, Status, Task
from muster.model.meta import Object

_PENDING = int(Status.PENDING)
_encode = msgspec.json.Encoder().encode


def single_kinds(jobs: Mapping[str, Job], groups: Mapping[str, Object]) -> dict[str, int]:
    """Returns the kinds of those jobs that have one: job → number of its kind. `groups` are the PodGroup objects."""
    found: dict[str, int] = {}
    numbers: dict[tuple[object, ...], int] = {}
    for key, job in jobs.items():
        if not job.count[_PENDING] or len(job.tasks) != 1:
            continue
        plain = job.kind
        if plain is None:
            kind = _kind(job) if job.min_available <= 1 and key in groups else None
        else:
            kind = (plain, job.phase) if plain.together and not single_task(job).nominated else None
        if kind is not None:
            found[key] = numbers.setdefault(kind, len(numbers))
    return found


def runs_of_kind(kinds: Mapping[str, int], jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Yields the jobs in their order: jobs of one kind that follow each other together, every other job alone."""
    at = 0
    while at < len(jobs):
        kind, end = kinds.get(jobs[at].key), at + 1
        if kind is not None:
            while end < len(jobs) and kinds.get(jobs[end].key) == kind:
                end += 1
        yield jobs[at:end]
        at = end


def single_task(job: Job) -> Task:
    (task,) = job.tasks.values()
    return task


def _kind(job: Job) -> tuple[object, ...] | None:
    """Returns what a plugin may read of a job with a PodGroup, but its name and times; None if the job has no kind.

    Jobs with roles, sub-groups, owners, volumes or a promised node have none: they differ anyway.
    """
    task = single_task(job)
    group, pod, shape = job.group, task.pod.metadata, task.shape
    spec = group.spec
    if (
        job.native or task.nominated or task.role or task.sub_group or pod.owner_references or shape.spec.volumes
        or job.roles or spec.sub_groups or spec.sub_group_policy
    ):  # fmt: skip
        return None
    meta, notes, labels = group.metadata, pod.annotations, pod.labels
    return (
        _encode(spec), tuple(meta.annotations.items()), tuple(meta.labels.items()), bool(meta.owner_references),
        shape.id, job.queue_name, job.namespace, job.phase, job.priority, task.gated, task.priority,
        tuple(notes.items()) if notes else (), tuple(labels.items()) if labels else (),
    )  # fmt: skip
