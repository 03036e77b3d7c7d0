"""Jobs that wait, in classes of jobs that differ only in their names and times.

Where jobs of a class come one after the other, every plugin that does not look at names or times answers the same for
each of them. If the first is refused, all are: a cycle then asks about one job per class. If it gives reasons, only
plain pods are in classes, because the pods of a gang have different reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.podgroups import GROUP
from muster.groups.applications import requires_policy

if TYPE_CHECKING:
    from muster.engine.core.class_reports import ClassReport
    from muster.model.meta import Object

_encode = msgspec.json.Encoder().encode
Rank = tuple[float, str]  # creation time and key: the order of the jobs of a class
LOWEST: Rank = (float("-inf"), "")


class JobClass:
    """The waiting jobs of one class, oldest first."""

    __slots__ = ("_ranks", "changed", "jobs", "key", "pending", "queue_name", "report")

    def __init__(self, key: Hashable, first: Job) -> None:
        self.key = key
        self.queue_name, self.pending = first.queue_name, first.is_pending  # a cycle may admit jobs
        self.jobs: dict[str, Job] = {}
        self._ranks: list[Rank] = []
        self.report: ClassReport | None = None  # the reasons of its jobs in the last cycle that gave any
        self.changed: dict[str, Job] = {}  # the jobs that came or went since then

    def add(self, job: Job) -> Rank:
        rank = (job.created, job.key)
        self.jobs[job.key] = self.changed[job.key] = job
        if self._ranks and rank < self._ranks[-1]:
            insort(self._ranks, rank)
        else:
            self._ranks.append(rank)
        return rank

    def remove(self, rank: Rank) -> None:
        self.changed[rank[1]] = self.jobs.pop(rank[1])
        del self._ranks[bisect_left(self._ranks, rank)]

    def first(self, taken: Container[str] = ()) -> Job | None:
        """Returns the oldest job that is not taken."""
        return self.after(LOWEST, taken)

    def after(self, rank: Rank, taken: Container[str] = ()) -> Job | None:
        """Returns the first job that is younger than the given one and not taken."""
        return next((job for _, job in self.behind(rank) if job.key not in taken), None)

    def behind(self, rank: Rank) -> Iterator[tuple[Rank, Job]]:
        """Yields the jobs that are younger than the given one, oldest first."""
        for at in range(bisect_right(self._ranks, rank), len(self._ranks)):
            yield self._ranks[at], self.jobs[self._ranks[at][1]]


class Backlog:
    """The classes of a state's waiting jobs. `phases` are those in which a cycle leaves a waiting job's phase alone;
    `plain`: only plain pods have classes.
    """

    def __init__(self, phases: tuple[str, ...], plain: bool) -> None:
        self.phases = phases
        self.plain = plain
        self.classes: dict[Hashable, JobClass] = {}
        self._of: dict[str, tuple[JobClass, Rank]] = {}  # job → where it is

    def __contains__(self, key: str) -> bool:
        return key in self._of

    def follow(
        self, changed: Iterable[Job], jobs: Mapping[str, Job], groups: Mapping[str, Object], found: dict[str, Job]
    ) -> None:
        """Puts the jobs that wait into their classes, and removes them from `found`."""
        phases, known = self.phases, self._of
        for job in changed:
            if job.phase not in phases and job.key not in known:
                continue
            if jobs.get(job.key) is not job:
                if job.key not in jobs:
                    self.discard(job.key)
            elif self.place(job, groups):
                found.pop(job.key, None)

    def place(self, job: Job, groups: Mapping[str, Object]) -> bool:
        """Puts a job that came or changed into its class; returns whether it has one."""
        if job.key in self._of:
            self.discard(job.key)
        if job.phase not in self.phases or job.queue is None or job.queue.fifo or job.min_available < 1:
            return False
        key = _plain_class(job) if self.plain else _class_of(job) if job.key in groups else None
        if key is None:
            return False
        found = self.classes.get(key)
        if found is None:
            found = self.classes[key] = JobClass(key, job)
        self._of[job.key] = found, found.add(job)
        return True

    def discard(self, key: str) -> None:
        where = self._of.pop(key, None)
        if where is not None:
            cls, rank = where
            cls.remove(rank)
            if not cls.jobs:
                del self.classes[cls.key]

    def jobs(self) -> dict[str, Job]:
        return {key: cls.jobs[key] for key, (cls, _) in self._of.items()}


def _plain_class(job: Job) -> Hashable | None:
    """Returns the class of the job of a plain pod (`single_jobs`); None if the job has no class."""
    if job.plain_class is None or not job.plain_class.together or job.count[Status.PENDING] != 1:
        return None
    (task,) = job.tasks.values()
    if task.gated or task.nominated or task.best_effort or requires_policy(task.labels):
        return None
    return job.plain_class, tuple(task.labels.items()), job.phase, job.queue_name, job.priority


def _class_of(job: Job) -> Hashable | None:
    """Returns everything that a plugin may read of the job but its name and times; None if it has no class.

    Jobs with labels, roles, sub-groups, volumes or promised nodes have none: they are few, or differ anyway.
    """
    meta, tasks = job.group.metadata, list(job.tasks.values())
    if (
        job.native or not tasks or job.count[Status.PENDING] != len(tasks) or job.roles or job.group.spec.sub_groups
        or meta.labels or meta.annotations or meta.owner_references
    ):  # fmt: skip
        return None
    first = tasks[0]
    notes = _notes(first)
    if notes is None or first.shape.spec.volumes or first.best_effort:
        return None
    for task in tasks[1:]:
        if task.shape is not first.shape or _notes(task) != notes:
            return None
    return (
        job.queue_name, job.phase, job.namespace, job.priority, len(tasks), first.shape.id, notes,
        _encode(job.group.spec),
    )  # fmt: skip


def _notes(task: Task) -> tuple[tuple[str, str], ...] | None:
    """Returns the annotations of the pod but its PodGroup; None if the pod differs from others in more than that."""
    meta = task.pod.metadata
    if task.gated or task.nominated or task.role or task.sub_group or meta.labels or meta.owner_references:
        return None
    return tuple(sorted((name, value) for name, value in meta.annotations.items() if name != GROUP))
