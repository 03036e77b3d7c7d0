"""The jobs of one queue that are to be served, in job order; waiting jobs may be in classes (`engine.core.backlog`)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import islice

from muster.engine.core.backlog import JobClass, Rank
from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Job, Task
from muster.engine.core.session import Session
from muster.engine.core.single_jobs import single_task

Entry = tuple[tuple[object, ...], Job]  # job key (which ends with the name), job


class QueueJobs:
    """Jobs in order, and a heap of those that were put back. Of a class of waiting jobs only the first is in it.

    When the first job of a class is refused, the class is set aside: its other jobs would be refused, too. When a job
    gets something, the jobs behind it in the classes set aside are considered again. A job's key depends on its own
    placements only, so keys that are made when a job is added or put back are exact.
    """

    __slots__ = ("_aside", "_back", "_class_of", "_in_order", "_last", "_session", "takes_turns")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._in_order: list[Entry] = []  # the first job is the last entry
        self._back: list[Entry] = []  # a heap
        self._class_of: dict[str, JobClass] = {}  # job that stands for its class → the class
        self._aside: list[tuple[JobClass, tuple[object, ...], Rank]] = []  # class, its job key, the last that was asked
        self._last: tuple[object, ...] = ()  # the job key of plugins of the job that was taken out last
        self.takes_turns = True  # whether pods were placed together whenever jobs that tie were served (`job_rounds`)

    def add(self, job: Job) -> None:
        """Adds a job before the first is taken out; call `arrange` then."""
        self._in_order.append((self._session.job_key(job), job))

    def add_class(self, cls: JobClass) -> None:
        job = cls.first(self._session.active)
        if job is not None:
            self._class_of[job.key] = cls
            self.add(job)

    def arrange(self) -> None:
        self._in_order.sort(key=_job_key, reverse=True)

    def jobs(self) -> list[Job]:
        return [job for _, job in (*self._in_order, *self._back)]

    def refuse_all(self, reason: Reason) -> None:
        for job in self.jobs():
            job.attempt.refusal = job.attempt.refusal or reason
            if job.key in self._class_of:
                self._session.refuse_class(self._class_of[job.key], job)

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
        """Returns the jobs of the same class that come next after a job of one pod (`Job.single_class`), and takes
        them out; if the job stands for a class of the backlog, the jobs of that class that come next.
        """
        waiting = self._class_of.get(job.key)
        if waiting is not None:
            return self._class_run(waiting, (job.created, job.key))
        taken: list[Job] = []
        if job.single_class is None:
            return taken
        entries, end = self._in_order, self._next_aside((job.created, job.key)) if self._aside else None
        while entries:
            key, other = entries[-1]
            if other.single_class is not job.single_class or self._next_is_back() or other.key in self._class_of:
                break
            if end is not None and key > end:
                break
            taken.append(other)
            entries.pop()
        return taken

    def _class_run(self, cls: JobClass, rank: Rank) -> list[Job]:
        """Returns the jobs of the class that come after this one, which is placed, and before all other jobs; at
        most as many as the nodes may hold.
        """
        most = self._session.placement.most_copies(single_task(cls.jobs[rank[1]]))
        nexts = (entries[at][0] for entries, at in ((self._in_order, -1), (self._back, 0)) if entries)
        ends = [key for key in (*nexts, self._next_aside(rank)) if key is not None]
        end = min(ends, default=None)
        found: list[Job] = []
        for other, job in islice(cls.behind(rank), most):
            if end is not None and (*self._last, *other) > end:
                break
            found.append(job)
        return found

    def _next_aside(self, rank: Rank) -> tuple[object, ...] | None:
        """Returns the job key of the first job in the classes set aside that comes after the job taken out last."""
        found = [
            (*key, job.created, job.key)
            for cls, key, last in self._aside
            if key >= self._last
            and (job := cls.after(max(last, rank) if key == self._last else last, self._session.active)) is not None
        ]
        return min(found, default=None)

    def upcoming(self, count: int) -> list[Task]:
        """Returns the pods of the jobs of one pod (`Job.single_class`) among the next jobs."""
        return [single_task(job) for _, job in self._in_order[: -count - 1 : -1] if job.single_class is not None]

    def put_back(self, run: list[Job]) -> None:
        """Puts back the last jobs of a run."""
        self._in_order += [(self._session.job_key(job), job) for job in reversed(run)]

    def others_tie(self, job: Job) -> bool:
        """Returns whether the next job has the key of plugins of the job that was taken out last."""
        if not self.takes_turns or self._class_of or self._aside or not (self._in_order or self._back):
            return False
        entry = self._back[0] if self._next_is_back() else self._in_order[-1]
        return entry[0][:-2] == self._session.job_key(job, plugins_only=True)

    def round(self, job: Job, joins: Callable[[Job], bool]) -> list[Entry]:
        """Takes out the jobs that tie with the job taken out last and join it, with their keys."""
        taken: list[Entry] = []
        while self.others_tie(job):
            back = self._next_is_back()
            other = (self._back[0] if back else self._in_order[-1])[1]
            if other.single_class is not None or not joins(other):
                break
            taken.append(heapq.heappop(self._back) if back else self._in_order.pop())
        return taken

    def return_entries(self, entries: list[Entry]) -> None:
        """Puts back the last jobs of a round."""
        for entry in entries:
            heapq.heappush(self._back, entry)

    def stands_for_class(self, job: Job) -> bool:
        return job.key in self._class_of

    def refused(self, job: Job) -> None:
        """The job that was taken out last, and with it its class, gets nothing."""
        cls = self._class_of.pop(job.key)
        self._aside.append((cls, self._last, (job.created, job.key)))
        self._session.refuse_class(cls, job)

    def push_next_of_class(self, job: Job) -> None:
        """The job does not stand for its class any more: the next one does."""
        self._push_next(self._class_of.pop(job.key), (job.created, job.key))

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
        job = cls.after(rank, self._session.active)
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
