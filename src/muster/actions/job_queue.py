"""The next job to serve: the first queue in queue order, and in it the first job in job order.

Where queues form a tree, a placement changes the rank of its queue and of all its ancestors. Each ancestor therefore
has a heap of what is directly below it, and the levels above the queue that was taken out stay out of their heaps until
it is put back. What remains in a heap keeps its order. (Volcano has one heap of all queues, which is stale after such a
change.) Without a tree there is one heap.

`JobQueue` is for actions that place pods, `ClaimQueue` for those that evict.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import Any

from muster.actions.queue_jobs import QueueJobs, queue_jobs
from muster.engine.core.backlog import JobClass
from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Job, Queue, Status
from muster.engine.core.session import Session, candidates

Serve = Callable[[Job], bool]
_NOTHING_PENDING = Reason("nothing-pending", "the group has no pending pod")
_NOT_ADMITTED = Reason("not-admitted", "the group is not admitted")
_PROMISED = Reason("promised", "the group waits for the capacity that was promised to it")


class QueueLevel:
    """The queues and levels directly below one ancestor, as a heap."""

    __slots__ = ("heap", "inner")

    def __init__(self) -> None:
        self.heap: list[tuple[Any, Queue | QueueLevel]] = []  # by rank of the queue, or of the level's first queue
        self.inner: dict[str, QueueLevel] = {}


class QueueTree:
    """The queues in queue order, taken one at a time and put back."""

    def __init__(self, session: Session, queues: Iterable[Queue]) -> None:
        self._session = session
        self._rank = cmp_to_key(session.queue_cmp)
        self._reorder_epoch = session.queue_reorder_epoch()
        self._path: list[QueueLevel] = []  # to the queue that was taken out; these levels are in no heap
        self._root = QueueLevel()
        self._build(queues)

    def pop(self) -> Queue | None:
        """Takes out the first queue."""
        self._return()
        if self._reorder_epoch != (now := self._session.queue_reorder_epoch()):
            self._reorder_epoch = now
            self._build(_members(self._root))
        level = self._root
        if not level.heap:
            return None
        while True:
            self._path.append(level)
            found = heapq.heappop(level.heap)[1]
            if isinstance(found, Queue):
                return found
            level = found

    def push(self, queue: Queue) -> None:
        """Puts back the queue that was taken out last."""
        heapq.heappush(self._path[-1].heap, (self._rank(queue), queue))

    def others_wait(self) -> bool:
        """Returns whether there are queues besides the one that was taken out last."""
        return any(level.heap for level in self._path)

    def _return(self) -> None:
        """Puts the levels of the last path back into the heaps above them, at their new positions."""
        path, self._path = self._path, []
        while len(path) > 1:
            level = path.pop()
            if level.heap:
                heapq.heappush(path[-1].heap, (level.heap[0][0], level))

    def _build(self, queues: Iterable[Queue]) -> None:
        self._root = QueueLevel()
        levels = [self._root]
        for queue in queues:
            at = self._root
            for name in self._session.queue_ancestors(queue):
                if name not in at.inner:
                    at.inner[name] = QueueLevel()
                    levels.append(at.inner[name])
                at = at.inner[name]
            at.heap.append((self._rank(queue), queue))
        for level in reversed(levels):  # lower levels first
            level.heap += [(below.heap[0][0], below) for below in level.inner.values()]
            heapq.heapify(level.heap)


def _members(level: QueueLevel) -> list[Queue]:
    found: list[Queue] = []
    left = [level]
    for each in left:
        for _, entry in each.heap:
            if isinstance(entry, Queue):
                found.append(entry)
            else:
                left.append(entry)
    return sorted(found, key=lambda queue: queue.name)


def behind(job: Job) -> Reason:
    return Reason("queue-fifo", f"queue {job.queue_name} is fifo: waits behind {job.shown}")


class JobQueue:
    """The jobs to schedule: the first queue in queue order, and in it the first job in job order."""

    def __init__(self, session: Session, jobs: Iterable[Job], classes: Iterable[JobClass] = ()) -> None:
        self.session = session
        self._jobs = queue_jobs(session, jobs, classes)
        self._refuse_behind_unserved()
        for waiting in self._jobs.values():
            waiting.arrange()
        self._queues = QueueTree(session, [session.queues[name] for name in self._jobs])

    def pop(self) -> tuple[Queue, Job] | None:
        """Takes out the next job and its queue. Both are put back separately."""
        while (queue := self._queues.pop()) is not None:
            overused = self.session.overused(queue)
            if overused is not None:
                self._refuse(queue, overused)
                continue
            job = self._jobs[queue.name].pop()
            if job is not None:
                return queue, job
        return None

    def of(self, queue: Queue) -> QueueJobs:
        return self._jobs[queue.name]

    def block(self, queue: Queue, job: Job) -> None:
        """Records that the job did not get its minimum: in a fifo queue no job behind it is served."""
        if queue.fifo:
            self._refuse(queue, behind(job))
            self._jobs[queue.name].clear()

    def push(self, job: Job) -> None:
        assert job.queue is not None
        self._jobs[job.queue.name].push(job)

    def push_queue(self, queue: Queue) -> None:
        self._queues.push(queue)

    def run(self, queue: Queue, job: Job) -> list[Job]:
        """Takes out the jobs that would follow the one taken out last and are decided together with it."""
        # A placement may change the order of queues.
        return [] if self._queues.others_wait() else self._jobs[queue.name].run(job)

    def others_tie(self, queue: Queue, job: Job) -> bool:
        """Returns whether the job that comes next ties with the one taken out last in the order of plugins."""
        return not self._queues.others_wait() and self._jobs[queue.name].others_tie(job)

    def _refuse_behind_unserved(self) -> None:
        """Refuses jobs of fifo queues behind a job that is not scheduled here (not admitted, or promised capacity)."""
        session = self.session
        for name, waiting in self._jobs.items():
            queue = session.queues[name]
            if not queue.fifo:
                continue
            served = {job.key for job in waiting.jobs()}
            others = [job for key, job in queue.jobs.items() if key not in served and self._waits(job)]
            first = min(others, key=session.job_key, default=None)
            if first is None:
                continue
            for job in waiting.cut(session.job_key(first)):
                job.attempt.refusal = behind(first)

    def _waits(self, job: Job) -> bool:
        return bool(candidates(job)) and not self.session.ready(job) and self.session.valid(job) is None

    def _refuse(self, queue: Queue, reason: Reason) -> None:
        if not self.session.explains:
            return
        self._jobs[queue.name].refuse_all(reason)


class ClaimQueue:
    """The jobs that may claim capacity in this cycle, in the order in which they are served.

    These are valid jobs with pending pods that are not in back-off: admitted, or refused only for lack of capacity.
    """

    def __init__(self, session: Session, rule: str) -> None:
        self.session = session
        actions = session.config.actions
        self._enqueues = "enqueue" in actions
        self._enqueued = self._enqueues and actions.index("enqueue") < actions.index(rule)
        self._jobs: dict[str, list[tuple[tuple[object, ...], str, Job]]] = {}
        for job in session.active.values():
            if self.why_not(job) is None:
                self._jobs.setdefault(job.queue_name, []).append((session.job_key(job), job.key, job))
        for heap in self._jobs.values():
            heapq.heapify(heap)

    def why_not(self, job: Job) -> Reason | None:
        """Returns why the job makes no claim in this cycle; None: it may."""
        session = self.session
        if not job.count[Status.PENDING]:
            return _NOTHING_PENDING
        if not session.promises.may_claim(job):
            return Reason("back-off", lambda _: session.promises.backoff_text(job))
        if job.is_pending and self._enqueues and not self._held_back(job):
            return _NOT_ADMITTED
        # A gang whose minimum is promised must get it before it claims more.
        return session.valid(job) or (None if session.ready(job) or not session.pipelined(job) else _PROMISED)

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
            elif served and self.why_not(job) is None:
                heapq.heappush(heap, (session.job_key(job), job.key, job))
            if not heap:
                queues.pop()
