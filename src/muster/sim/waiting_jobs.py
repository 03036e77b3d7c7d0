"""The jobs that wait for nodes, in the order in which the scheduler serves them, and the shares of their queues.

The order is the session's own: queues by `QueueTree`, jobs by `Session.in_job_order`. The reasons are those of
the next cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.actions.job_queue import QueueTree
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Job, Task
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.session import Log, Session, candidates, silent
from muster.engine.core.state import Objects, State
from muster.model.finding import Finding
from muster.model.meta import timestamp
from muster.model.quantity import display
from muster.sim import summary
from muster.sim.group_controllers import open_cluster
from muster.sim.group_names import shown_group
from muster.sim.inputs import LoadedConfig
from muster.sim.summary import QueueShare

__all__ = ["WaitingJob", "WaitingJobs", "waiting_jobs"]


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job with pods that wait for nodes."""

    position: int | None  # in the order over all queues, from 1; None: the scheduler does not serve it
    queue: str
    queue_position: int | None  # among the jobs of its queue
    group: str
    namespace: str
    pods: list[str]  # that wait
    size: int  # pods in all
    minimum: int
    priority: int
    since: float
    requests: Mapping[str, int]  # of the pods that wait, in internal units
    binds: int  # pods that the next cycle binds
    reason: PodReason | None  # of the first pod that the next cycle leaves without a node
    labels: tuple[Mapping[str, str], ...] = field(default=(), repr=False)  # of each pod that waits, with its group's

    def to_dict(self) -> dict[str, object]:
        return {
            "position": self.position,
            "queue": self.queue,
            "queue_position": self.queue_position,
            "group": self.group,
            "pods": self.pods,
            "size": self.size,
            "minimum": self.minimum,
            "priority": self.priority,
            "since": timestamp(self.since),
            "requests": {name: display(name, amount) for name, amount in sorted(self.requests.items())},
            "binds": self.binds,
            "code": None if self.reason is None else self.reason.code,
            "reason": None if self.reason is None else self.reason.text,
        }


@dataclass(slots=True)
class WaitingJobs:
    """The waiting jobs in the order in which they are served, and the shares of all queues."""

    jobs: list[WaitingJob]
    shares: dict[str, QueueShare]  # queues in the order in which they are served; those without a waiting job last
    warnings: list[str] = field(default_factory=list)
    configuration: LoadedConfig | None = field(default=None, repr=False)
    findings: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster queues -o json` prints."""
        waiting: dict[str, int] = {}
        for job in self.jobs:
            waiting[job.queue] = waiting.get(job.queue, 0) + 1
        plain: dict[str, object] = {
            "jobs": [job.to_dict() for job in self.jobs],
            "queues": {name: {"waiting": waiting.get(name, 0), **of.to_dict()} for name, of in self.shares.items()},
            "warnings": self.warnings,
        }
        return plain if self.configuration is None else {**plain, "configuration": self.configuration.to_dict()}


def waiting_jobs(
    scheduler: Scheduler, objects: Objects, now: float, scheduler_names: Iterable[str], log: Log = silent
) -> WaitingJobs:
    """Returns the waiting jobs of a cluster before its next cycle."""
    _, state = open_cluster(objects, now, scheduler_names, all_pods=True)
    found: dict[str, list[Task]] = {}
    for task in state.tasks.values():
        if state.needs_node(task) and task.job is not None:
            found.setdefault(task.job.key, []).append(task)
    session = scheduler.session(state, now, log)
    try:
        order = _served_order(session, [state.jobs[key] for key in found])
        shared = summary.shared_gpus(session) if summary.gpu_fragmentation(session) is not None else {}
        shares = summary.queue_shares(state, summary.deserved(session), shared)
        in_order = {key: session.in_order(tasks) for key, tasks in found.items()}
    finally:
        session.close()
    plan = scheduler.cycle(state, now, log)
    positions: dict[str, int] = {}
    jobs = []
    for position, job in enumerate(order, 1):
        positions[job.queue_name] = positions.get(job.queue_name, 0) + 1
        jobs.append(_described(job, in_order[job.key], plan, position, positions[job.queue_name]))
    served = {job.key for job in order}
    rest = [_described(state.jobs[key], in_order[key], plan, None, None) for key in sorted(found) if key not in served]
    queues = {name: shares[name] for name in (*positions, *shares) if name in shares}
    return WaitingJobs([*jobs, *rest, *_without_job(state, plan)], queues, list(plan.warnings))


def _served_order(session: Session, jobs: Iterable[Job]) -> list[Job]:
    """Returns the jobs of open sessions in the order in which an action takes them, as long as nothing is placed."""
    by_queue: dict[str, list[Job]] = {}
    for job in jobs:
        if job.queue is not None and job.queue_name in session.queues and candidates(job):
            by_queue.setdefault(job.queue_name, []).append(job)
    order: list[Job] = []
    queues = QueueTree(session, [session.queues[name] for name in by_queue])
    while (queue := queues.pop()) is not None:
        order += session.in_job_order(by_queue[queue.name])
    return order


def _described(
    job: Job, tasks: list[Task], plan: Plan, position: int | None, queue_position: int | None
) -> WaitingJob:
    requests: dict[str, int] = {}
    for task in tasks:
        for name, amount in task.shape.amounts.items():
            if name != "pods":
                requests[name] = requests.get(name, 0) + amount
    return WaitingJob(
        position=position,
        queue=job.queue_name,
        queue_position=queue_position,
        group=shown_group(tasks[0]),
        namespace=job.namespace,
        pods=[task.key for task in tasks],
        size=len(job.tasks),
        minimum=job.min_available,
        priority=job.priority,
        since=job.created,
        requests=requests,
        binds=sum(1 for task in tasks if task.key in plan.binds),
        reason=next((plan.reasons[task.key] for task in tasks if task.key in plan.reasons), None),
        labels=tuple({**job.group.metadata.labels, **task.labels} for task in tasks),
    )


def _without_job(state: State, plan: Plan) -> list[WaitingJob]:
    """Returns the pods whose group cannot be used: no job has them, and the scheduler does not serve them."""
    return [
        WaitingJob(
            position=None, queue="", queue_position=None, group=shown_group(task), namespace=task.namespace,
            pods=[key], size=1, minimum=1, priority=task.priority, since=task.created,
            requests={name: n for name, n in task.shape.amounts.items() if name != "pods"}, binds=0,
            reason=plan.reasons.get(key), labels=(task.labels,),
        )
        for key, task in sorted(state.tasks.items()) if state.needs_node(task) and task.job is None
    ]  # fmt: skip
