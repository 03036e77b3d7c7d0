"""Whose turn it is: the first queue in queue order, and in it the first job in job order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cmp_to_key

from muster.engine.hooks import Reason
from muster.engine.jobs import Job, Queue
from muster.engine.session import Session


class Turns:
    """Queues and their jobs, taken one at a time and put back.

    A job's key depends on its own placements only, so a heap with keys made when it is put back is exact. A queue's
    place may depend on other queues' (hierarchical shares); then the best one is looked for anew each time, where
    Volcano's heap would be stale.
    """

    def __init__(self, session: Session, jobs: Iterable[Job]) -> None:
        self.session = session
        self._jobs: dict[str, list[tuple[tuple[object, ...], str, Job]]] = {}
        for job in jobs:
            assert job.queue is not None
            self._jobs.setdefault(job.queue.name, []).append((session.job_key(job), job.key, job))
        for heap in self._jobs.values():
            heapq.heapify(heap)
        self._rank = cmp_to_key(session.queue_cmp)
        self._together = session.queues_move_together
        self._queues: list[tuple[object, Queue]] = []
        for name in self._jobs:
            self.back_queue(session.queues[name])

    def next(self) -> tuple[Queue, Job] | None:
        while self._queues:
            queue = self._pop_queue()
            overused = self.session.overused(queue)
            if overused is not None:
                self._refuse(queue, overused)
                continue
            heap = self._jobs[queue.name]
            if heap:
                return queue, heapq.heappop(heap)[2]
        return None

    def back(self, job: Job) -> None:
        assert job.queue is not None
        heapq.heappush(self._jobs[job.queue.name], (self.session.job_key(job), job.key, job))

    def back_queue(self, queue: Queue) -> None:
        entry = (self._rank(queue), queue)
        if self._together:
            self._queues.append(entry)
        else:
            heapq.heappush(self._queues, entry)

    def _pop_queue(self) -> Queue:
        if not self._together:
            return heapq.heappop(self._queues)[1]
        first = min(range(len(self._queues)), key=lambda i: self._rank(self._queues[i][1]))
        return self._queues.pop(first)[1]

    def _refuse(self, queue: Queue, reason: Reason) -> None:
        for _, _, job in self._jobs[queue.name]:
            job.attempt.refusal = job.attempt.refusal or reason
