"""reclaim: a queue below its deserved share takes capacity from queues that hold more than theirs.

Queues are taken in queue order, their jobs in job order. A job claims its minimum as a whole, and pods above it one by
one (`actions.claims`).

By Volcano's rules (`compatibility: volcano`), queues are taken in queue order without overused queues, every starving
job of a queue before the next queue, and a job's tasks until it no longer starves. On the first node (by name) where
the victims that the plugins name are enough, they are evicted and the task is pipelined. A job that ends pipelined
commits its evictions, any other job undoes them.
"""

from __future__ import annotations

from functools import cmp_to_key

import numpy as np

from muster.actions.claims import Claims
from muster.actions.job_queue import ClaimQueue
from muster.actions.volcano_eviction import Memo, divided, evict_for, evictable, within_reach
from muster.engine.core.jobs import Job, Queue, Status, Task
from muster.engine.core.session import Session, candidates
from muster.engine.core.statement import Statement
from muster.engine.evictions.claim import RECLAIM
from muster.engine.evictions.victims import Victims, claimants

NAME = RECLAIM


def run(session: Session) -> None:
    if session.volcano:
        run_by_volcano_rules(session)
        return
    claims = Claims(session, RECLAIM)
    if not claims.names_no_victims:
        ClaimQueue(session, RECLAIM).serve_all(claims.serve)


def run_by_volcano_rules(session: Session) -> None:
    victims = Victims(session, NAME)
    jobs: dict[str, list[Job]] = {}
    for job in claimants(session):
        jobs.setdefault(job.queue_name, []).append(job)
    queues, log = [session.queues[name] for name in jobs], session.state.nodes.log
    sorted_at = -1
    while queues:
        if sorted_at != len(log):  # evictions change the queue order
            sorted_at = len(log)
            queues.sort(key=cmp_to_key(session.queue_cmp), reverse=True)
        queue = queues.pop()
        overused = session.overused(queue)
        for job in session.in_job_order(jobs[queue.name]):
            if overused is None:
                reclaim_for(session, victims, job)
            else:
                job.attempt.refusal = job.attempt.refusal or overused


def reclaim_for(session: Session, victims: Victims, job: Job) -> None:
    if divided(session, job):
        Claims(session, NAME).serve(job)
        return
    statement, memo = session.statement(), Memo()
    for task in session.in_order(candidates(job)):
        if not session.starving(job):
            break
        if not memo.known(session, task) and not _reclaim(session, statement, victims, task):
            memo.note(session, task)
    if session.pipelined(job):
        statement.commit()
    else:
        statement.discard()
        victims.on_rollback()


def _reclaim(session: Session, statement: Statement, victims: Victims, task: Task) -> bool:
    queue = task.job.queue if task.job else None
    if queue is None or not may_claim(session, task):
        return False
    if session.turns is not None:
        session.turns.claim(session, [task])
    nodes = np.flatnonzero(within_reach(session, task, victims)).tolist()
    return any(reclaim_on(session, statement, victims, task, queue, node) for node in nodes)


def reclaim_on(
    session: Session, statement: Statement, victims: Victims, task: Task, queue: Queue, node: int
) -> bool:
    """Evicts for the task on this node by Volcano's rules, and pipelines the task there."""
    others = others_on(session, queue, node)
    if not others:
        victims.exhausted(queue.name)[node] = True
        return False
    if not session.placement.curable(task, node):
        return False
    given = victims.chosen(task, others)
    if not given or not session.placement.fits_future(task, node, given):
        return False
    if not evict_for(statement, task, given, NAME, lambda: _enough(session, task, node)):
        return False
    statement.pipeline([task], [node])
    return True


def others_on(session: Session, queue: Queue, node: int) -> list[Task]:
    """Returns the pods on the node that reclaim asks the plugins about: those of other queues that are reclaimable."""
    return [
        t for t in evictable(session, node, (Status.RUNNING,))
        if t.job and t.job.queue and t.job.queue is not queue and t.job.queue.reclaimable
    ]  # fmt: skip


def may_claim(session: Session, task: Task) -> bool:
    queue = task.job.queue if task.job is not None and not task.job.never_preempts else None
    return task.shape.spec.preemption_policy != "Never" and queue is not None and session.preemptive(queue, task)


def _enough(session: Session, task: Task, node: int) -> bool:
    """Volcano: only the capacity counts, filters are not evaluated again; but the right devices must be free."""
    if not session.placement.fits_future(task, node):
        return False
    return not any(p.wants(task) for p in session.pickers) or session.placement.passes(task, node)
