"""Jobs of one pod that is pending or terminating, by class. Jobs of one class differ only in their names and times, and
in labels that nobody reads.

Every pod without a group and an owner is such a job. All plugins of muster give the jobs of a class the same answers,
as long as these do not depend on time, so that actions ask about one of them and decide about many. Plugins of other
packages may look at names: with one of them jobs have no classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.podgroups import GROUP
from muster.groups.applications import requires_policy
from muster.model.meta import Object

_PENDING, _RELEASING = int(Status.PENDING), int(Status.RELEASING)
_encode = msgspec.json.Encoder().encode


class SingleJobClass:
    """The single jobs of one class in one cycle (`Job.single_class`)."""

    __slots__ = ("job_key", "phase", "signature", "status", "valid")

    def __init__(self, status: Status, phase: str) -> None:
        self.status, self.phase = status, phase  # of their pods, of the jobs, when the cycle opens
        self.job_key: tuple[float, ...] | None = None  # of plugins; None: not known yet (`JobKeys`)
        self.signature = -1  # of their pods; −1: not known yet (`Session.signature`)
        self.valid = False  # whether it is known that they are valid (`Session.valid`)

    def holds(self, job: Job) -> bool:
        """Returns whether the job is still as the jobs of its class are when the cycle opens."""
        return job.count[self.status] > 0


def classify_single_jobs(
    jobs: Iterable[Job], groups: Mapping[str, Object], reads_labels: Callable[[], bool]
) -> None:  # fmt: skip
    """Sets the class of those jobs that have one. `groups` are the PodGroup objects.

    Unless a plugin `reads_labels` in this cycle, plain pods of one class may have different labels.
    """
    all_labels: bool | None = None  # None: not known yet
    known: dict[tuple[object, ...], SingleJobClass] = {}
    for job in jobs:
        if len(job.tasks) != 1 or not (job.count[_PENDING] or job.count[_RELEASING]):
            continue
        (task,) = job.tasks.values()
        plain, same = job.plain_class, None
        if plain is None:
            if task.status == _PENDING and job.min_available <= 1 and job.key in groups:
                same = _class_key(job, task)
        elif plain.together and not task.nominated:
            labels, read = task.pod.metadata.labels, None
            if labels:
                if all_labels is None:
                    all_labels = reads_labels()
                read = tuple(labels.items()) if all_labels else ()
            if not requires_policy(labels):
                same = (plain, read, job.phase, task.status, task.node < 0, task.preemptable, task.gated)
        if same is not None:
            job_class = known.get(same)
            if job_class is None:
                job_class = known[same] = SingleJobClass(task.status, job.phase)
            job.single_class = job_class


def runs_of_class(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Yields the jobs in their order: jobs of one class that follow each other together, every other job alone."""
    at = 0
    while at < len(jobs):
        job_class, end = jobs[at].single_class, at + 1
        if job_class is not None:
            while end < len(jobs) and jobs[end].single_class is job_class:
                end += 1
        yield jobs[at:end]
        at = end


def single_task(job: Job) -> Task:
    (task,) = job.tasks.values()
    return task


def _class_key(job: Job, task: Task) -> tuple[object, ...] | None:
    """Returns what a plugin may read of a job with a PodGroup, but its name and times; None if the job has no class.

    Jobs with roles, sub-groups, owners, volumes, a policy or a promised node have none: they differ anyway.
    """
    group, pod, shape = job.group, task.pod.metadata, task.shape
    spec = group.spec
    if (
        job.native or task.nominated or task.role or task.sub_group or pod.owner_references or shape.spec.volumes
        or job.roles or spec.sub_groups or spec.sub_group_policy or requires_policy(pod.labels)
    ):  # fmt: skip
        return None
    meta, notes, labels = group.metadata, pod.annotations, pod.labels
    return (
        _encode(spec), tuple(meta.annotations.items()), tuple(meta.labels.items()), bool(meta.owner_references),
        shape.id, job.queue_name, job.namespace, job.phase, job.priority, task.gated, task.priority,
        tuple([item for item in notes.items() if item[0] != GROUP]), tuple(labels.items()) if labels else (),
    )  # fmt: skip
