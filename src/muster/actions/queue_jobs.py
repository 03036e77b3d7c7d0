"""The jobs of one queue that are to be served, in job order; waiting jobs may be in classes (`engine.core.backlog`)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from muster.engine.core.backlog import JobClass, Rank
from muster.engine.core.jobs import Job
from muster.engine.core.session import Session

Entry = tuple[tuple[object, ...], str, Job]  # job key, name, job


class QueueJobs:
    """A heap of jobs. Of a class of waiting jobs only the first is in it.

    When the first job of a class is refused, the class is set aside: its other jobs would be refused, too. When a job
    gets something, the jobs behind it in the classes set aside are considered again. A job's key depends on its own
    placements only, so a heap whose keys are made when a job is put back is exact.
    """

    __slots__ = ("_aside", "_class_of", "_last", "_session", "heap")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.heap: list[Entry] = []
        self._class_of: dict[str, JobClass] = {}  # job that stands for its class → the class
        self._aside: list[tuple[JobClass, tuple[object, ...], Rank]] = []  # class, its job key, the last that was asked
        self._last: tuple[object, ...] = ()  # the job key of plugins of the job that was taken out last

    def add(self, job: Job) -> None:
        """Adds a job before the first is taken out; call `heapify` then."""
        self.heap.append((self._session.job_key(job), job.key, job))

    def add_class(self, cls: JobClass) -> None:
        job = cls.first()
        self._class_of[job.key] = cls
        self.add(job)

    def heapify(self) -> None:
        heapq.heapify(self.heap)

    def pop(self) -> Job | None:
        if not self.heap:
            return None
        job = heapq.heappop(self.heap)[2]
        if self._class_of or self._aside:
            self._last = self._session.job_key(job, plugins_only=True)
        return job

    def push(self, job: Job) -> None:
        heapq.heappush(self.heap, (self._session.job_key(job), job.key, job))

    def stands_for_class(self, job: Job) -> bool:
        return job.key in self._class_of

    def refused(self, job: Job) -> None:
        """The job that was taken out last, and with it its class, gets nothing."""
        cls = self._class_of.pop(job.key)
        self._aside.append((cls, self._last, (job.created, job.key)))

    def served(self, job: Job) -> None:
        """The job that was taken out last got something: others may be answered differently from now on."""
        rank = (job.created, job.key)
        cls = self._class_of.pop(job.key, None)
        if cls is not None:
            self._push_next(cls, rank)
        aside, self._aside = self._aside, []
        for cls, key, last in aside:
            if key == self._last:
                self._push_next(cls, max(last, rank))
            elif key > self._last:  # otherwise all of its jobs come before this one
                self._push_next(cls, last)

    def _push_next(self, cls: JobClass, rank: Rank) -> None:
        job = cls.after(rank)
        if job is not None:
            self._class_of[job.key] = cls
            self.push(job)


def queue_jobs(session: Session, jobs: Iterable[Job], classes: Iterable[JobClass]) -> dict[str, QueueJobs]:
    """Returns the jobs by queue."""
    found: dict[str, QueueJobs] = {}
    for job in jobs:
        if job.queue_name not in found:
            found[job.queue_name] = QueueJobs(session)
        found[job.queue_name].add(job)
    for cls in classes:
        if cls.queue_name not in found:
            found[cls.queue_name] = QueueJobs(session)
        found[cls.queue_name].add_class(cls)
    return found
