"""The jobs that may claim capacity in this cycle, in the order in which they are served."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cmp_to_key

from muster.engine.core.jobs import Job, Status
from muster.engine.core.session import Session

Serve = Callable[[Job], bool]


class ClaimQueue:
    """Valid jobs with pending pods that are not in back-off: admitted, or refused only for lack of capacity."""

    def __init__(self, session: Session, rule: str) -> None:
        self.session = session
        actions = session.config.actions
        self._enqueues = "enqueue" in actions
        self._enqueued = self._enqueues and actions.index("enqueue") < actions.index(rule)
        self._jobs: dict[str, list[tuple[tuple[object, ...], str, Job]]] = {}
        for job in session.active.values():
            if self._may_claim(job):
                self._jobs.setdefault(job.queue_name, []).append((session.job_key(job), job.key, job))
        for heap in self._jobs.values():
            heapq.heapify(heap)

    def _may_claim(self, job: Job) -> bool:
        session = self.session
        if not job.count[Status.PENDING] or not session.promises.may_claim(job):
            return False
        if job.is_pending and self._enqueues and not self._held_back(job):
            return False
        # A gang whose minimum is promised must get it before it claims more.
        return session.valid(job) is None and (session.ready(job) or not session.pipelined(job))

    def _held_back(self, job: Job) -> bool:
        """Returns whether enqueue refuses the job only for lack of capacity."""
        if not self._enqueued and job.min_resources is not None:
            self.session.enqueueable(job)  # enqueue runs later in this cycle
        return job.attempt.may_evict

    def serve_all(self, serve: Serve) -> None:
        """Serves the first job of the first queue, repeatedly, until no job gets anything more."""
        session = self.session
        queues, sorted_at = [session.queues[name] for name in self._jobs], -1
        while queues:
            if sorted_at != len(session.committed):  # claims change the queue order
                sorted_at = len(session.committed)
                queues.sort(key=cmp_to_key(session.queue_cmp), reverse=True)
            heap = self._jobs[queues[-1].name]
            job = heapq.heappop(heap)[2]
            served = serve(job)
            if queues[-1].fifo and not session.ready(job):
                heap.clear()  # fifo: no job behind it is served
            elif served and self._may_claim(job):
                heapq.heappush(heap, (session.job_key(job), job.key, job))
            if not heap:
                queues.pop()
