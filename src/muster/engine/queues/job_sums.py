"""Sums over the jobs of each queue, kept from one cycle to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from muster.engine.core.job_changes import JobReader
from muster.engine.core.jobs import Job
from muster.engine.core.resources import add
from muster.engine.core.state import State


class Counted:
    """What a job, or each of several equal jobs, adds to the sums of its queue."""

    __slots__ = ("parts", "queue", "times")

    def __init__(self, queue: str, parts: tuple[dict[str, int], ...]) -> None:
        self.queue = queue
        self.parts = parts
        self.times = 0  # how many more jobs are to be counted


class JobSums:
    """Sums over the jobs of each queue that are kept from one cycle to the next: only jobs that changed count again.

    `parts` gives what a job adds to each sum; it may read everything that changes the job's generation. Unless it
    `reads_nodes`, plain pods add the same if their requests, minimum, phase, status and gate are equal (the minimum
    follows from the request and the number of members), and are counted together.
    """

    def __init__(self, parts: Callable[[Job], tuple[Mapping[str, int], ...]], *, reads_nodes: bool = False) -> None:
        self._parts = parts
        self._reads_nodes = reads_nodes
        self._reads = JobReader()
        self._sums: dict[str, list[dict[str, int]]] = {}  # by queue
        self._counted: dict[str, Counted] = {}  # by job

    def follow(self, state: State) -> None:
        """Counts the jobs that changed."""
        changed = self._reads.take(state.changes)
        if changed is None:
            self._sums, self._counted = {}, {}
            self._add_jobs(state.jobs.values(), {})
            return
        counted, keys = self._counted, {job.key: None for job in changed}
        gone = [was for key in keys if (was := counted.pop(key, None)) is not None]
        for was in gone:
            was.times -= 1
        self._add_jobs([job for key in keys if (job := state.jobs.get(key)) is not None], dict.fromkeys(gone))

    def _add_jobs(self, jobs: Iterable[Job], touched: dict[Counted, None]) -> None:
        """Counts jobs, and with them what is to be counted already."""
        counted, together = self._counted, dict[object, Counted]()
        for job in jobs:
            if job.queue is None:
                continue
            if job.plain_class is None or self._reads_nodes:
                found = self._count(job)
                touched[found] = None
            else:
                (task,) = job.tasks.values()
                same = task.shape, job.queue_name, job.min_available, job.phase, task.status, task.gated
                known = together.get(same)
                if known is None:
                    known = together[same] = self._count(job)
                    touched[known] = None
                found = known
            found.times += 1
            counted[job.key] = found
        for one in touched:
            if one.times:
                self._add(one.queue, one.parts, one.times)
                one.times = 0

    def _count(self, job: Job) -> Counted:
        assert job.queue is not None
        return Counted(job.queue.name, tuple([dict(part) for part in self._parts(job)]))

    def of(self, queue: str) -> list[dict[str, int]]:
        """Returns copies of the sums of a queue; none if it never had a job."""
        return [dict(one) for one in self._sums.get(queue, ())]

    def total(self) -> list[dict[str, int]]:
        """Returns the sums over all queues."""
        found: list[dict[str, int]] = []
        for sums in self._sums.values():
            found += [{} for _ in sums[len(found) :]]
            for one, part in zip(found, sums, strict=True):
                add(one, part)
        return found

    def _add(self, queue: str, parts: tuple[dict[str, int], ...], times: int) -> None:
        sums = self._sums.get(queue)
        if sums is None:
            sums = self._sums[queue] = [{} for _ in parts]
        for one, part in zip(sums, parts, strict=True):
            if part:
                add(one, part, times)
