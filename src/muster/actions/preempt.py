"""preempt: inside one queue, a job takes capacity from jobs of lower priority, then a job from its own pods.

Queues are taken in queue order, their jobs in job order. A job claims its minimum as a whole, and pods above it one by
one (`actions.claims`). What reclaim could serve is left to reclaim.

By Volcano's rules (`compatibility: volcano`) there are two phases. Phase 1, per queue and job: each task tries the
nodes by score and evicts in victim order until the queue admits the task, it fits what will be free, and every filter
passes. Phase 2: pending tasks of a starving job may evict tasks of the same job. `enableTopologyAwarePreemption`
instead compares the smallest victim sets of all nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from muster.actions.claims import Claims
from muster.actions.job_queue import ClaimQueue
from muster.actions.role_failures import PreemptRoleFailures
from muster.actions.volcano_eviction import Memo, divided, evict_for, evictable, within_reach
from muster.engine.core.hooks import Bools
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session, candidates
from muster.engine.core.statement import Statement
from muster.engine.evictions.claim import PREEMPT, RECLAIM
from muster.engine.evictions.victims import Victims, claimants
from muster.model.meta import seconds

NAME = PREEMPT
Eligible = Callable[[Task], bool]
Attempt = Callable[[Statement, Task, Eligible], bool]


def run(session: Session) -> None:
    if session.volcano:
        run_by_volcano_rules(session)
        return
    claims = Claims(session, PREEMPT)
    if claims.names_no_victims:
        return
    reclaim = _later_reclaim(session)

    def serve(job: Job) -> bool:
        if reclaim is not None and reclaim.could_serve(job):
            return False
        return claims.serve(job) or (session.pipelined(job) and claims.serve(job, within=True))

    ClaimQueue(session, PREEMPT).serve_all(serve)


def _later_reclaim(session: Session) -> Claims | None:
    """Returns the claims of reclaim if reclaim runs after preempt; if it ran before, it has served what it could."""
    actions = session.config.actions
    if RECLAIM not in actions or actions.index(RECLAIM) < actions.index(PREEMPT):
        return None
    reclaim = Claims(session, RECLAIM)
    return None if reclaim.names_no_victims else reclaim


def run_by_volcano_rules(session: Session) -> None:
    victims, failures = Victims(session, NAME), PreemptRoleFailures(session, NAME)
    by_node = session.arguments(NAME).bool("enableTopologyAwarePreemption", False)

    def attempt(statement: Statement, task: Task, eligible: Eligible) -> bool:
        if not may_preempt(session, task):
            return False
        if session.turns is not None:
            session.turns.claim(session, [task])
        # Volcano: a node that needs no victim is used like any other.
        able = within_reach(session, task, victims) | session.placement.fits(task, MoveKind.PIPELINE)
        nodes = failures.without_failed(task, able)
        return (_dry_runs if by_node else by_score)(session, statement, victims, task, eligible, nodes)

    starving = claimants(session)
    for name in session.queues:
        mine = [job for job in starving if job.queue_name == name]
        between_jobs(session, victims, mine, attempt, Claims(session, NAME))
        for job in mine:
            within_job(session, job, attempt)


def between_jobs(session: Session, victims: Victims, jobs: Sequence[Job], attempt: Attempt, sets: Claims) -> None:
    tasks = {job.key: session.in_order(candidates(job)) for job in jobs}
    heap = [(session.job_key(job), job.key, job) for job in jobs]
    heapq.heapify(heap)
    while heap:
        job = heapq.heappop(heap)[2]

        def other_job(victim: Task, own: Job = job) -> bool:
            return victim.job is not own and victim.job is not None and victim.job.queue is own.queue

        if divided(session, job):
            sets.serve(job)
            continue
        statement, assigned, memo = session.statement(), False, Memo()
        while tasks[job.key] and session.starving(job):
            task = tasks[job.key].pop(0)

            if memo.known(session, task):
                continue
            if attempt(statement, task, other_job):
                assigned = True
            else:
                memo.note(session, task)
        if not session.pipelined(job):
            statement.discard()
            victims.on_rollback()
            continue
        statement.commit()
        if assigned:
            heapq.heappush(heap, (session.job_key(job), job.key, job))


def within_job(session: Session, job: Job, attempt: Attempt) -> None:
    if job.attempt.divided:
        return  # evicting one member for another of the same gang does not bring the gang into one domain
    for task in session.in_order(candidates(job)):
        statement = session.statement()
        assigned = attempt(statement, task, lambda victim: victim.job is job)
        statement.commit()
        if not assigned:
            break


def may_preempt(session: Session, task: Task) -> bool:
    """Returns False with policy Never, or while a pod of lower priority is terminating on the task's nominated node."""
    if task.shape.spec.preemption_policy == "Never" or (task.job is not None and task.job.never_preempts):
        return False
    node = session.state.nodes.rank.get(task.nominated, -1) if task.nominated else -1
    if node < 0:
        return True
    return not any(
        t.status == Status.RELEASING and t.priority < task.priority for t in session.state.nodes.on[node].values()
    )


def _given(session: Session, victims: Victims, task: Task, node: int, eligible: Eligible) -> list[Task]:
    """Returns the pods that may be evicted for the task on this node, in victim order."""
    assert task.job is not None
    here = same_queue_on(session, task, node)
    if not here:
        victims.exhausted(task.job.queue_name)[node] = True
    candidates = [t for t in here if eligible(t) and (t.best_effort or not task.best_effort)]
    if not candidates or not session.placement.curable(task, node):
        return []
    return victims.chosen(task, candidates)


def same_queue_on(session: Session, task: Task, node: int) -> list[Task]:
    """Returns the pods of the task's queue on the node that may be evicted at all."""
    queue = task.job.queue_name if task.job is not None else ""
    return [t for t in evictable(session, node, (Status.BOUND, Status.RUNNING)) if t.job and t.job.queue_name == queue]


def _enough(session: Session, task: Task, node: int) -> bool:
    queue = task.job.queue if task.job else None
    return (
        queue is not None
        and session.admits(queue, task) > 0
        and session.placement.fits_future(task, node)
        and session.placement.passes(task, node)
    )


def by_score(
    session: Session, statement: Statement, victims: Victims, task: Task, eligible: Eligible, mask: Bools
) -> bool:
    key = np.where(mask, session.placement.scores(task), -np.inf) if mask.any() else np.empty(0)
    while len(key):
        node = int(key.argmax())
        if key[node] == -np.inf:
            break
        key[node] = -np.inf
        given = _given(session, victims, task, node, eligible)
        if not session.placement.fits_future(task, node, given):
            continue
        if evict_for(statement, task, given, NAME, lambda at=node: _enough(session, task, at)):  # type: ignore[misc]
            statement.pipeline([task], [node])
            return True
    return False


def _dry_runs(
    session: Session, statement: Statement, victims: Victims, task: Task, eligible: Eligible, mask: Bools
) -> bool:
    """Returns the node with the least important victim set; a node that needs no victim is not a candidate."""
    best: tuple[tuple[float, ...], int, list[Task]] | None = None
    for node in np.flatnonzero(mask).tolist():
        given = _given(session, victims, task, node, eligible)
        trial = session.statement()
        if not given or not evict_for(trial, task, given, NAME, lambda at=node: _enough(session, task, at)):  # type: ignore[misc]
            continue
        evicted = [move.task for move in trial.moves]
        trial.discard()
        if not evicted:
            continue
        rank = (*_harm(evicted), node)
        if best is None or rank < best[0]:
            best = (rank, node, evicted)
    if best is None:
        return False
    for victim in best[2]:
        statement.evict(victim, task, NAME)
    statement.pipeline([task], [best[1]])
    return True


def _harm(victims: Sequence[Task]) -> tuple[float, ...]:
    """Returns kube-scheduler's order of candidates: priorities first, then numbers, then the latest start."""
    highest = max(t.priority for t in victims)
    started = [seconds(t.pod.status.start_time or t.pod.metadata.creation_timestamp) for t in victims]
    earliest = min(s for s, t in zip(started, victims, strict=True) if t.priority == highest)
    return (highest, sum(t.priority + 2**31 for t in victims), len(victims), -earliest)
