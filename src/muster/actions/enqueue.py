"""enqueue: admits pending groups, so that pods are scheduled only if their queue could take the group's minimum.

Queues are taken in queue order, their pending jobs in job order. After a refused job the next jobs are still considered
(Volcano: traverse), unless the queue's dequeueStrategy is fifo: then they wait behind it. Admission changes no share,
so the orders that were computed at the start stay valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key

from muster.actions.job_queue import behind
from muster.actions.queue_jobs import queue_jobs
from muster.engine.core.backlog import JobClass
from muster.engine.core.jobs import Job, Queue
from muster.engine.core.session import Session
from muster.engine.core.single_jobs import runs_of_class

NAME = "enqueue"


def run(session: Session) -> None:
    pending: dict[str, list[Job]] = {}
    for job in session.active.values():
        if job.is_pending:
            pending.setdefault(job.queue_name, []).append(job)
    classes: dict[str, list[JobClass]] = {}
    for cls in session.waiting_classes(pending=True):
        classes.setdefault(cls.queue_name, []).append(cls)
    queues = [queue for name, queue in session.queues.items() if name in pending or name in classes]
    for queue in sorted(queues, key=cmp_to_key(session.queue_cmp)):
        if queue.name in classes:
            _admit_classes(session, pending.get(queue.name, []), classes[queue.name])
            continue
        blocker: Job | None = None
        jobs = session.in_job_order(pending[queue.name])
        for equal in runs_of_class(jobs) if session.timeless else ([job] for job in jobs):
            blocker = _admit(session, queue, equal, blocker)


def _admit(session: Session, queue: Queue, jobs: Sequence[Job], blocker: Job | None) -> Job | None:
    """Admits or refuses jobs of one class with the result of one at a time; returns the queue's first refused job."""
    at = 0
    while at < len(jobs):
        job, left = jobs[at], len(jobs) - at
        if blocker is not None and queue.fifo:
            for each in jobs[at:]:
                each.attempt.refusal = behind(blocker)
            break
        # Volcano: plugins are not asked about a group that has no minimum resources.
        refusal = None if job.min_resources is None else session.enqueueable(job)
        if refusal is None:
            count = left if job.min_resources is None else session.equal_votes(job, left) if left > 1 else 1
            session.enqueued(job, count)
            for each in jobs[at : at + count]:
                each.phase = "Inqueue"
        else:
            # A refusal changes nothing for the next job.
            count = 1 if queue.fifo else left
            for each in jobs[at : at + count]:
                each.attempt.refusal, each.attempt.may_evict = refusal, job.attempt.may_evict
            blocker = blocker or job
        at += count
    return blocker


def _admit_classes(session: Session, jobs: list[Job], classes: list[JobClass]) -> None:
    """The same for a queue whose jobs are asked about class by class: no reasons are given."""
    (waiting,) = queue_jobs(session, jobs, classes).values()
    waiting.arrange()
    while (job := waiting.pop()) is not None:
        if job.min_resources is None or session.enqueueable(job) is None:
            session.take(job)
            session.enqueued(job)
            job.phase = "Inqueue"
            waiting.served(job)
        elif waiting.stands_for_class(job):
            waiting.refused(job)
