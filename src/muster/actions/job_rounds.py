"""Serves jobs that take turns: each of them gets one pod in one step, with the result of one at a time.

A job that has its minimum goes back into its queue with every pod that it gets. Jobs with equal keys of plugins, for
example with equal dominant shares, then follow each other, and a pod moves its job behind all of them. If their next
pods are equal, these are placed together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.actions.job_queue import JobQueue
from muster.actions.queue_jobs import Entry
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.session import Session


def serve_round(session: Session, jobs: JobQueue, queue: Queue, job: Job, waiting: Mapping[str, list[Task]]) -> bool:
    """Places the next pod of the job and of those that come after it, and puts the jobs with more pods back.

    Returns whether it did; otherwise nothing is changed, and the job is to be served alone.
    """
    if not jobs.others_tie(queue, job) or session.turns is not None or not session.equal_answers:
        return False
    first = waiting[job.key][0]
    if not _gets_one_pod(session, job, waiting[job.key]):
        return False

    def joins(other: Job) -> bool:
        tasks = waiting[other.key]
        same = session.signature(tasks[0]) == session.signature(first) and tasks[0].role == first.role
        return same and _gets_one_pod(session, other, tasks)

    others = jobs.of(queue).round(job, joins)
    if not others:
        return False
    members = [job, *(other for _, other in others)]
    placed = _place(session, queue, members, [waiting[one.key][0] for one in members], others)
    if placed == 0:
        jobs.of(queue).takes_turns = False
    jobs.of(queue).return_entries(others[max(placed - 1, 0) :])
    for one in members[:placed]:
        del waiting[one.key][0]
        if waiting[one.key]:
            jobs.push(one)
    return placed > 0


def _place(
    session: Session, queue: Queue, members: Sequence[Job], tasks: list[Task], others: Sequence[Entry]
) -> int:  # fmt: skip
    """Allocates and commits the first of these tasks, one of each job; returns how many."""
    count = session.admits(queue, tasks[0], len(tasks))
    if count < 2:
        return 0
    statement = session.statement()
    placed = session.placement.allocate(statement, tasks[: session.until_overused(queue, tasks[0], count)])
    # A job that is not ready goes on at once; one that comes before the next in order would be served again.
    last = others[placed - 2][0] if placed > 1 else ()
    if not all(map(session.ready, members[:placed])) or any(session.job_key(j) < last for j in members[: placed - 1]):
        placed = 0
    if placed:
        statement.commit()
    else:
        statement.discard()
    return placed


def _gets_one_pod(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    """Returns whether the next step of the job places just its first pod, on any node."""
    task, spec = tasks[0], job.group.spec
    if (
        job.native or job.roles or spec.sub_groups or spec.sub_group_policy
        or task.nominated or task.role in job.attempt.failed_roles
    ):  # fmt: skip
        return False
    missing = session.missing(job)
    if missing > 1 or (missing and task.role and len(tasks) > 1):  # the failures of a role count for its other pods
        return False
    return not any(plugin.divides(job) for plugin in session.dividers)
