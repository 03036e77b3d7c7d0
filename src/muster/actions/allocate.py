"""allocate: gives pending pods nodes, queue by queue and job by job, gangs all or nothing.

The loop is Volcano's: the first queue in queue order that is not overused, its first job in job order, the
job's tasks in task order. A job that becomes ready is committed and, if tasks are left, goes back into its queue, so
that what is above the minimum is given out one pod at a time and jobs take turns. A job that is only pipelined keeps
what it reserved. A job that is neither ready nor pipelined gives everything back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from muster.actions.job_queue import JobQueue
from muster.actions.job_rounds import serve_round
from muster.actions.node_set_trials import Outcome, on_set, on_sets
from muster.actions.queue_jobs import QueueJobs
from muster.actions.role_failures import RoleFailures
from muster.actions.sub_groups import SubGroupPlacement
from muster.engine.core.backlog import JobClass
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import READY_LIKE, Job, Queue, Status, Task
from muster.engine.core.podgroups import MINIMUM_FIRST
from muster.engine.core.session import Session, candidates
from muster.engine.core.single_jobs import single_task
from muster.engine.core.statement import Statement
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.placement.lone_tasks import Upcoming
from muster.engine.placement.node_sets import FAILED, divide_nodes
from muster.engine.placement.trace import fit_error

NAME = "allocate"
_PENDING = int(Status.PENDING)


def run(session: Session) -> None:
    waiting = eligible(session)
    classes = _eligible_classes(session)
    jobs = JobQueue(session, [session.jobs[key] for key in waiting], classes)
    while (first := jobs.pop()) is not None:
        queue, job = first
        if classes and not session.explains:
            found = _first_hopeful(session, jobs.of(queue), job)
            if found is None:
                continue
            job = found
        stands_for_class = bool(classes) and jobs.of(queue).stands_for_class(job)
        if stands_for_class:
            waiting[job.key] = session.in_order(candidates(job))
        tasks = waiting[job.key]
        before = len(session.committed), len(session.reserved)
        if job.single_class is not None:
            ready = serve_singles(session, jobs, queue, job, tasks)
        elif session.explains and stands_for_class:
            ready = serve_class(session, jobs, queue, job, tasks)
        elif not classes and serve_round(session, jobs, queue, job, waiting):
            jobs.push_queue(queue)
            continue
        else:
            ready = JobStep(session, queue, job).run(tasks)
        if classes and not _settle_class(session, jobs.of(queue), job, before):
            pass
        elif not ready:
            jobs.block(queue, job)
        elif tasks:
            jobs.push(job)
        jobs.push_queue(queue)


def serve_singles(session: Session, jobs: JobQueue, queue: Queue, job: Job, tasks: list[Task]) -> bool:
    """Serves a job of one pod together with the jobs of its class that come next, with the result of one at a time.

    A placement changes only the order of queues, the queue's limits are asked with the number of pods, and a job that
    is refused changes nothing for the next one.
    """
    following = jobs.run(queue, job)
    placed = place_singles(session, queue, [job, *following], jobs.of(queue).upcoming)
    if placed:
        tasks.clear()
        if placed <= len(following):
            jobs.of(queue).put_back(following[placed - 1 :])
        return True
    before = len(session.committed), len(session.reserved)
    ready = JobStep(session, queue, job).run(tasks)
    if queue.fifo or job.attempt.divided or before != (len(session.committed), len(session.reserved)):
        jobs.of(queue).put_back(following)
    elif following:
        _refuse_equal(session, job, following)
    return ready


def serve_class(session: Session, jobs: JobQueue, queue: Queue, job: Job, tasks: list[Task]) -> bool:
    """The same for the first job of a class. The class may be long: its next jobs are asked for if the first is placed.
    """
    if not place_singles(session, queue, [job]):
        return JobStep(session, queue, job).run(tasks)
    tasks.clear()
    session.take(job)
    following = jobs.run(queue, job) if session.overused(queue) is None else []
    for each in following[: place_singles(session, queue, following) if following else 0]:
        session.take(each)
    return True


def place_singles(session: Session, queue: Queue, jobs: Sequence[Job], upcoming: Upcoming | None = None) -> int:
    """Allocates and commits the first of these jobs of one class; returns how many get what is free now.

    `upcoming`: see `Placement.choose`.
    """
    if session.dividers and any(plugin.divides(jobs[0]) for plugin in session.dividers):
        return 0
    tasks = [single_task(job) for job in jobs]
    count = session.admits(queue, tasks[0], len(tasks))
    if not count:
        return 0
    statement = session.statement()
    if count > 1:  # the first one may be allocated: the queue is not overused
        count = session.until_overused(queue, tasks[0], count)
    tasks = tasks[:count]
    placed = session.placement.allocate(statement, tasks, upcoming)
    if placed and not session.ready(jobs[0]):
        statement.discard()
        return 0
    statement.commit()
    return placed


def _refuse_equal(session: Session, refused: Job, jobs: Sequence[Job]) -> None:
    """Refuses jobs of the same class as one that got nothing."""
    attempt = refused.attempt
    text = next(iter(attempt.unfit.values()), None)
    tasks = [single_task(job) for job in jobs]
    for job, task in zip(jobs, tasks, strict=True):
        job.attempt.refusal, job.attempt.failed_roles = attempt.refusal, set(attempt.failed_roles)
        if text is not None:
            job.attempt.unfit[task.key] = text
        if attempt.over_quota:
            job.attempt.over_quota.add(task.key)
    if session.turns is not None:
        session.turns.refused(session, tasks)


def hopeful(session: Session, job: Job) -> bool:
    """Returns whether the nodes may hold the minimum of a job that waits in a class: its pods are equal."""
    return session.placement.most_copies(next(iter(job.tasks.values()))) >= max(session.missing(job), 1)


def _first_hopeful(session: Session, jobs: QueueJobs, job: Job | None) -> Job | None:
    """Refuses the classes of the queue's next jobs whose minimum no nodes can hold; returns the first other job."""
    while job is not None and jobs.stands_for_class(job) and not hopeful(session, job):
        jobs.refused(job)
        job = jobs.pop()
    return job


def _settle_class(session: Session, jobs: QueueJobs, job: Job, before: tuple[int, int]) -> bool:
    """Considers classes of waiting jobs again if the job got something; returns whether the job itself is settled by
    its class, which got nothing.
    """
    if before != (len(session.committed), len(session.reserved)):
        if jobs.stands_for_class(job):
            session.take(job)
        jobs.served(job)
    elif jobs.stands_for_class(job) and job.attempt.divided:
        session.take(job)  # as without classes, each job tries the node sets by itself
        jobs.push_next_of_class(job)
    elif jobs.stands_for_class(job):
        jobs.refused(job)
        return False
    return True


def _eligible_classes(session: Session) -> list[JobClass]:
    """Returns the classes of jobs to place. The jobs of the others may not be scheduled, or no nodes can hold them."""
    found: list[JobClass] = []
    for cls in session.waiting_classes(pending=False):
        job = cls.first(session.active)
        # A cycle with classes evicts nothing: what the nodes cannot hold now, they cannot hold later in this cycle.
        if job is None or (not session.explains and not hopeful(session, job)):
            continue
        job.attempt.refusal = session.valid(job)
        if job.attempt.refusal is None:
            found.append(cls)
        else:
            session.refuse_class(cls, job)
    return found


def eligible(session: Session) -> dict[str, list[Task]]:
    """Returns the pods to place per job, in task order. Jobs that may not be scheduled get a reason instead."""
    enqueues = "enqueue" in session.config.actions
    waiting: dict[str, list[Task]] = {}
    for job in session.active.values():
        if job.is_pending:
            if enqueues:
                continue
            job.phase = "Inqueue"
        if job.count[_PENDING] == job.best_effort_pending:
            continue
        tasks = [t for t in candidates(job) if not t.best_effort]
        if not tasks or (job.key in session.promises.kept and not session.ready(job)):
            continue  # nothing to place, or its minimum is promised: the pods above the minimum must wait for that
        reason = session.valid(job)
        if reason is not None:
            job.attempt.refusal = reason
            continue
        waiting[job.key] = minimum_first(job, session.in_order(tasks))
    return waiting


def minimum_first(job: Job, tasks: list[Task]) -> list[Task]:
    """Returns the tasks of a gang with the annotation in such an order that the minimums of its roles come first.

    Volcano keeps the task order: surplus workers may take the place of the head of a RayCluster, and nothing starts.
    """
    if not job.roles or job.min_available < job.roles_total or MINIMUM_FIRST not in job.group.metadata.annotations:
        return tasks
    having = Counter(task.role for task in job.tasks.values() if task.node >= 0 or task.best_effort)
    lacking = {role: least - having[role] for role, least in job.roles.items()}
    first: dict[str, Task] = {}
    for task in tasks:
        if lacking.get(task.role, 0) > 0:
            lacking[task.role] -= 1
            first[task.key] = task
    return [*first.values(), *(task for task in tasks if task.key not in first)]


class JobStep:
    """One step of a job: places its tasks until the job is ready, or cannot become ready."""

    def __init__(self, session: Session, queue: Queue, job: Job) -> None:
        self.session = session
        self.queue = queue
        self.job = job
        # its sub-groups; a tree of native groups is one whatever is configured
        self.root = sub_group_tree(job) if session.dividers or job.native else None

    def run(self, tasks: list[Task]) -> bool:
        """Places tasks and removes those that were placed or given up; returns whether the job is ready for more."""
        session, job = self.session, self.job
        sets: Sequence[NodeSet | None] | None = divide_nodes(session, job, tasks) if session.dividers else None
        if sets is None and self.root is None:
            return self._on_all_nodes(tasks) is Outcome.READY
        job.attempt.divided = sets is not None
        if session.turns is not None:
            session.turns.job(session, tasks)
        outcome = on_sets(session, job, tasks, [None] if sets is None else sets, self.place_group)
        if outcome is not Outcome.FAILED:
            return outcome is Outcome.READY
        # No node set can hold it. A surplus pod of a ready job is given up alone, a gang as a whole.
        lost = equal_run(session, tasks, 0) if session.ready(job) else list(tasks)
        failed = job.attempt.refusal is not None and job.attempt.refusal.code == FAILED
        for task in () if failed else lost:
            job.attempt.unfit.setdefault(task.key, fit_error(session, task))
        if session.turns is not None:
            session.turns.refused(session, lost)
        del tasks[: len(lost)]
        return session.ready(job)

    def place_group(self, statement: Statement, tasks: list[Task], within: NodeSet | None) -> None:
        """Places the job on one node set: in task order, or sub-group by sub-group."""
        if self.root is None:
            self._place_in_order(statement, tasks, within, set())
        else:
            SubGroupPlacement(self.session, statement, self.queue, self.job, self.root).place(tasks, within)

    def _on_all_nodes(self, tasks: list[Task]) -> Outcome:
        """Places the job on all nodes. Without node sets, tasks that cannot be placed are removed as well."""
        session, job = self.session, self.job
        first = session.statement()
        done = self._allocate_first(first, tasks)
        if done and session.ready(job):
            first.commit()
            del tasks[:done]
            return Outcome.READY

        def place_job(statement: Statement, left: list[Task], within: NodeSet | None) -> None:
            nonlocal done
            statement.merge(first)
            del left[:done]
            done = 0
            self._place_in_order(statement, left, within, job.attempt.failed_roles)

        trial = on_set(session, job, tasks, None, place_job)
        trial.settle()
        tasks[:] = trial.left
        return trial.outcome

    def _allocate_first(self, statement: Statement, tasks: list[Task]) -> int:
        """Allocates the first run as `_place_in_order` would, which goes on after it; returns how many tasks.

        Most jobs are ready then. Where failures count for other pods of the role, it is left to `RoleFailures`.
        """
        session, job, task = self.session, self.job, tasks[0]
        if session.turns is not None or task.nominated or task.role in job.attempt.failed_roles:
            return 0
        missing = session.missing(job)
        run = run_of(session, tasks, 0, max(1, missing))
        if missing and task.role and len(run) < len(tasks):
            return 0
        run = run[: session.admits(self.queue, task, len(run))]
        return session.placement.allocate(statement, run) if run else 0

    def _place_in_order(
        self, statement: Statement, tasks: list[Task], within: NodeSet | None, failed_roles: set[str]
    ) -> None:
        """Places tasks in order, in runs no longer than what the gang still needs."""
        session, job = self.session, self.job
        at, missing = 0, session.missing(job)
        failures = RoleFailures(session, NAME, tasks if missing else ())
        while at < len(tasks):
            run = run_of(session, tasks, at, max(1, missing))
            if not session.sound and run[0].role and run[0].role in failed_roles:
                at += len(run)  # Volcano does not try other pods of a role that failed, whatever they request
                continue
            run = run[: session.admits(self.queue, run[0], len(run))]
            if not run:
                at += self._refuse_quota(equal_run(session, tasks, at))
                continue
            placed = failures.place_run(statement, run, within)
            at += placed
            missing = session.missing(job)
            if placed < len(run):
                losers = equal_run(session, tasks, at)
                if within is None:
                    if session.turns is not None:
                        session.turns.refused(session, losers)
                    _note(job, losers, fit_error(session, losers[0]))
                failed_roles.add(losers[0].role)
                if not may_continue(job, failed_roles):
                    at += 1
                    break
                at += len(losers)
            elif not missing:
                break
        del tasks[:at]

    def _refuse_quota(self, tasks: Sequence[Task]) -> int:
        """Volcano skips a task that the queue cannot admit; equal tasks would be refused as well."""
        if not self.session.explains:
            return len(tasks)
        if self.session.turns is not None:
            self.session.turns.refused(self.session, tasks)
        reason = self.session.quota_refusal(self.queue, tasks[0])
        _note(self.job, tasks, reason.message() if reason is not None else "the queue admits no more")
        self.job.attempt.over_quota.update(task.key for task in tasks)
        return len(tasks)


def _note(job: Job, tasks: Sequence[Task], text: str) -> None:
    for task in tasks:
        job.attempt.unfit[task.key] = text


def run_of(session: Session, tasks: Sequence[Task], at: int, most: int) -> list[Task]:
    """Returns consecutive tasks that get the same answers: equal signature and role, and no promised node."""
    first = tasks[at]
    if most == 1 or first.nominated:
        return [first]
    signature, role, shape = session.signature(first), first.role, session.equal_shape(first)
    some = tasks[at : at + most]
    for i, task in enumerate(some):
        differs = task.shape is not shape and session.signature(task) != signature
        if differs or task.role != role or task.nominated:
            return list(some[:i])
    return list(some)


def equal_run(session: Session, tasks: Sequence[Task], at: int) -> list[Task]:
    return run_of(session, tasks, at, len(tasks))


def may_continue(job: Job, failed_roles: set[str]) -> bool:
    """Returns whether the job can still reach its minimum without the tasks that found no node, as Volcano asks."""
    if job.min_available == len(job.tasks):
        return False
    if job.min_available < job.roles_total:
        able = sum(1 for t in job.tasks.values() if t.status == Status.PENDING and t.role not in failed_roles)
        return job.ready + able >= job.min_available
    if not job.roles:
        return True
    # As in the check of the gang plugin, a pending pod that requests nothing counts.
    met = Counter(t.role for t in job.tasks.values() if t.status in READY_LIKE or _asks_for_nothing(t))
    return all(met[role] >= job.roles.get(role, 0) for role in failed_roles)


def _asks_for_nothing(task: Task) -> bool:
    return task.status == Status.PENDING and task.best_effort
