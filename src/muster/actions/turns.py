"""Whose turn it is: the first queue in queue order, and in it the first job in job order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from muster.actions.families import Families
from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Job, Queue
from muster.engine.core.session import Session, candidates


def behind(job: Job) -> Reason:
    return Reason("queue-fifo", f"queue {job.queue_name} is fifo: waits behind {job.key}")


class Turns:
    """Queues and their jobs, taken one at a time and put back.

    A job's key depends on its own placements only, so a heap with keys made when it is put back is exact; so it is for
    queues, by families (`families`).
    """

    def __init__(self, session: Session, jobs: Iterable[Job]) -> None:
        self.session = session
        self._jobs: dict[str, list[tuple[tuple[object, ...], str, Job]]] = {}
        for job in jobs:
            assert job.queue is not None
            self._jobs.setdefault(job.queue.name, []).append((session.job_key(job), job.key, job))
        self._wait_in_line()
        for heap in self._jobs.values():
            heapq.heapify(heap)
        self._queues = Families(session, [session.queues[name] for name in self._jobs])

    def next(self) -> tuple[Queue, Job] | None:
        while (queue := self._queues.pop()) is not None:
            overused = self.session.overused(queue)
            if overused is not None:
                self._refuse(queue, overused)
                continue
            heap = self._jobs[queue.name]
            if heap:
                return queue, heapq.heappop(heap)[2]
        return None

    def block(self, queue: Queue, job: Job) -> None:
        """The job did not get its minimum: in a fifo queue nobody behind it is served."""
        if queue.fifo:
            self._refuse(queue, behind(job))
            self._jobs[queue.name] = []

    def back(self, job: Job) -> None:
        assert job.queue is not None
        heapq.heappush(self._jobs[job.queue.name], (self.session.job_key(job), job.key, job))

    def back_queue(self, queue: Queue) -> None:
        self._queues.back(queue)

    def _wait_in_line(self) -> None:
        """In fifo queues, jobs behind one that is not in its turn (not admitted yet, promised) wait for it."""
        session = self.session
        for name, heap in self._jobs.items():
            queue = session.queues[name]
            if not queue.fifo:
                continue
            served = {job.key for _, _, job in heap}
            others = [job for key, job in queue.jobs.items() if key not in served and self._waits(job)]
            first = min(others, key=session.job_key, default=None)
            if first is None:
                continue
            for _, _, job in [entry for entry in heap if entry[0] > session.job_key(first)]:
                job.attempt.refusal = behind(first)
            heap[:] = [entry for entry in heap if entry[0] < session.job_key(first)]

    def _waits(self, job: Job) -> bool:
        return bool(candidates(job)) and not self.session.ready(job) and self.session.valid(job) is None

    def _refuse(self, queue: Queue, reason: Reason) -> None:
        for _, _, job in self._jobs[queue.name]:
            job.attempt.refusal = job.attempt.refusal or reason
