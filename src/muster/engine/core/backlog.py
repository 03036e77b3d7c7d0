"""Jobs that wait, in classes of jobs that differ only in their names and times.

Where jobs of a class come one after the other, every plugin that does not look at names or times answers the same for
each of them. If the first is refused, all are: a cycle that gives no reasons then asks about one job per class.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import msgspec

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.podgroups import GROUP

if TYPE_CHECKING:
    from muster.model.meta import Object

_encode = msgspec.json.Encoder().encode
Rank = tuple[float, str]  # creation time and key: the order of the jobs of a class


class JobClass:
    """The waiting jobs of one class, oldest first."""

    __slots__ = ("_ranks", "jobs", "key", "pending", "queue_name")

    def __init__(self, key: Hashable, first: Job) -> None:
        self.key = key
        self.queue_name, self.pending = first.queue_name, first.is_pending  # a cycle may admit jobs
        self.jobs: dict[str, Job] = {}
        self._ranks: list[Rank] = []

    def add(self, job: Job) -> Rank:
        rank = (job.created, job.key)
        self.jobs[job.key] = job
        insort(self._ranks, rank)
        return rank

    def remove(self, rank: Rank) -> None:
        del self.jobs[rank[1]]
        del self._ranks[bisect_left(self._ranks, rank)]

    def first(self) -> Job:
        return self.jobs[self._ranks[0][1]]

    def after(self, rank: Rank) -> Job | None:
        """Returns the first job that is younger than the given one."""
        at = bisect_right(self._ranks, rank)
        return self.jobs[self._ranks[at][1]] if at < len(self._ranks) else None


class Backlog:
    """The classes of a state's waiting jobs. `phases` are those in which a cycle leaves a waiting job's phase alone."""

    def __init__(self, phases: tuple[str, ...]) -> None:
        self.phases = phases
        self.classes: dict[Hashable, JobClass] = {}
        self._of: dict[str, tuple[JobClass, Rank]] = {}  # job → where it is

    def __contains__(self, key: str) -> bool:
        return key in self._of

    def place(self, job: Job, groups: Mapping[str, Object]) -> bool:
        """Puts a job that came or changed into its class; returns whether it has one."""
        self.discard(job.key)
        key = self._class_of(job) if job.key in groups else None
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

    def _class_of(self, job: Job) -> Hashable | None:
        """Returns everything that a plugin may read of the job but its name and times; None if it has no class.

        Jobs with labels, roles, sub-groups, volumes or promised nodes have none: they are few, or differ anyway.
        """
        meta, tasks = job.group.metadata, list(job.tasks.values())
        if (
            job.native or job.phase not in self.phases or job.queue is None or job.queue.fifo or job.min_available < 1
            or not tasks or job.count[Status.PENDING] != len(tasks) or job.roles or job.group.spec.sub_groups
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
            job.queue.name, job.phase, job.namespace, job.priority, len(tasks), first.shape.id, notes,
            _encode(job.group.spec),
        )  # fmt: skip


def _notes(task: Task) -> tuple[tuple[str, str], ...] | None:
    """Returns the annotations of the pod but its PodGroup; None if the pod differs from others in more than that."""
    meta = task.pod.metadata
    if task.gated or task.nominated or task.role or task.sub_group or meta.labels or meta.owner_references:
        return None
    return tuple(sorted((name, value) for name, value in meta.annotations.items() if name != GROUP))
