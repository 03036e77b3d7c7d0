"""The jobs of one queue that are to be served, in job order; waiting jobs may be in classes (`engine.core.backlog`)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from muster.engine.core.backlog import JobClass, Rank
from muster.engine.core.jobs import Job
from muster.engine.core.session import Session

Entry = tuple[tuple[object, ...], Job]  # job key (which ends with the name), job


class QueueJobs:
    """Jobs in order, and a heap of those that were put back. Of a class of waiting jobs only the first is in it.

    When the first job of a class is refused, the class is set aside: its other jobs would be refused, too. When a job
    gets something, the jobs behind it in the classes set aside are considered again. A job's key depends on its own
    placements only, so keys that are made when a job is added or put back are exact.
    """

    __slots__ = ("_aside", "_back", "_class_of", "_in_order", "_last", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._in_order: list[Entry] = []  # the first job is the last entry
        self._back: list[Entry] = []  # a heap
        self._class_of: dict[str, JobClass] = {}  # job that stands for its class → the class
        self._aside: list[tuple[JobClass, tuple[object, ...], Rank]] = []  # class, its job key, the last that was asked
        self._last: tuple[object, ...] = ()  # the job key of plugins of the job that was taken out last

    def add(self, job: Job) -> None:
        """Adds a job before the first is taken out; call `arrange` then."""
        self._in_order.append((self._session.job_key(job), job))

    def add_class(self, cls: JobClass) -> None:
        job = cls.first()
        self._class_of[job.key] = cls
        self.add(job)

    def arrange(self) -> None:
        self._in_order.sort(key=_job_key, reverse=True)

    def jobs(self) -> list[Job]:
        return [job for _, job in (*self._in_order, *self._back)]

    def clear(self) -> None:
        self._in_order.clear()
        self._back.clear()

    def cut(self, last: tuple[object, ...]) -> list[Job]:
        """Removes the jobs after this job key, before the first is taken out; returns them."""
        after = [job for key, job in self._in_order if key > last]
        self._in_order = [entry for entry in self._in_order if entry[0] < last]
        return after

    def pop(self) -> Job | None:
        if self._next_is_back():
            job = heapq.heappop(self._back)[1]
        elif self._in_order:
            job = self._in_order.pop()[1]
        else:
            return None
        if self._class_of or self._aside:
            self._last = self._session.job_key(job, plugins_only=True)
        return job

    def push(self, job: Job) -> None:
        heapq.heappush(self._back, (self._session.job_key(job), job))

    def _next_is_back(self) -> bool:
        return bool(self._back) and not (self._in_order and self._in_order[-1][0] < self._back[0][0])

    def run(self, job: Job) -> list[Job]:
        """Takes out the jobs of the same kind that come next after a job of one pod (`single_kinds`)."""
        taken: list[Job] = []
        kinds = self._session.kinds
        kind = kinds.get(job.key)
        if kind is None or self._aside or job.key in self._class_of:
            return taken
        entries = self._in_order
        while entries:
            other = entries[-1][1]
            if kinds.get(other.key) is not kind or self._next_is_back() or other.key in self._class_of:
                break
            taken.append(other)
            entries.pop()
        return taken

    def put_back(self, run: list[Job]) -> None:
        """Puts back the last jobs of a run."""
        self._in_order += [(self._session.job_key(job), job) for job in reversed(run)]

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


def _job_key(entry: Entry) -> tuple[object, ...]:
    return entry[0]


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
