"""Turns the moves of a cycle into a plan, and finds the first cause for every pod without a node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from muster.engine.core.backlog import JobClass
from muster.engine.core.class_reports import Cause, ClassReport
from muster.engine.core.hooks import BindEffects, Deadlines
from muster.engine.core.jobs import Attempt, Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.plan import Condition, Eviction, Plan, PodReason
from muster.engine.core.session import Session
from muster.engine.core.single_jobs import SingleJobClass
from muster.engine.placement.trace import fit_error

_UNBOUND = (Status.PENDING, Status.PIPELINED, Status.ALLOCATED)
_IS_UNBOUND = [status in _UNBOUND for status in Status]
# Codes of a pod that could start if another pod of its group could: they are not the cause of the group's wait.
FOLLOWS = ("pipelined", "gang")
_KEY = attrgetter("key")
_MOST_SIGNATURES = 100  # of waiting pods that are asked about in a cycle
_READY = Condition("Scheduled", "tasks in gang are ready to be scheduled", "")
_ALLOCATE, _EVICT = MoveKind.ALLOCATE, MoveKind.EVICT  # looked up for every move
# As integers, because they are looked up for every job in every cycle.
_PENDING, _PIPELINED, _ALLOCATED = (int(status) for status in _UNBOUND)
_RUNNING, _BOUND, _SUCCEEDED, _FAILED, _RELEASING = (
    int(s) for s in (Status.RUNNING, Status.BOUND, Status.SUCCEEDED, Status.FAILED, Status.RELEASING)
)


def plan_of(session: Session) -> Plan:
    """Returns the plan. If the session does not explain, it has no reasons and no conditions: no decision needs them.
    """
    deadlines = [at for p in session.flat(Deadlines) if (at := p.next_deadline()) is not None]
    plan = Plan(warnings=list(session.warnings), again_at=min(deadlines, default=None))
    names = session.state.nodes.names
    tasks: list[Task] = []
    nodes: list[int] = []
    for move in session.committed:
        if move.kind is _EVICT:
            by = move.by.key if move.by else ""
            plan.evictions.append(Eviction(move.task.key, names[move.nodes[0]], by, move.rule))
        elif move.kind is _ALLOCATE:
            tasks += move.tasks
            nodes += move.nodes
        else:
            plan.pipelined.update((t.key, names[n]) for t, n in zip(move.tasks, move.nodes, strict=True))
    plan.binds = dict(zip(map(_KEY, tasks), map(names.__getitem__, nodes), strict=True))
    for move in session.reserved:
        plan.pipelined.update((t.key, names[n]) for t, n in zip(move.tasks, move.nodes, strict=True))
    plan.nominated = dict(plan.pipelined) if session.volcano else session.promises.nominations
    _effects(session, plan)
    jobs = PlannedJobs(session, plan)
    if not session.explains:
        for job in {**session.state.unsettled.jobs, **session.active}.values():
            jobs.add(job)
        return plan
    for cls in session.waiting_classes(pending=False):
        jobs.add_class(cls)
    found = session.state.unsettled.since_update(session.state.changes)
    found |= session.active
    for job in found.values():
        jobs.add(job)
    for key in session.state.objects["PodGroup"]:
        settled = session.state.jobs.get(key)
        if settled is not None and settled.settled == settled.generation and settled.tasks:
            plan.conditions[key] = _READY
    for key, reason in session.state.set_aside.items():
        plan.reasons[key] = PodReason(reason.code, reason.message())
    return plan


def _bound(session: Session) -> dict[str, int]:
    """Returns the number of pods without a binding that the plan binds, per job that has no class."""
    bound: dict[str, int] = {}
    for move in session.committed:
        if move.kind is _ALLOCATE or (move.kind is _EVICT and move.previous_status in _UNBOUND):
            sign = 1 if move.kind is _ALLOCATE else -1
            count = 1 if move.several_jobs else len(move.tasks)
            for task in move.tasks if move.several_jobs else move.tasks[:1]:
                if task.job is not None and task.job.single_class is None:
                    bound[task.job.key] = bound.get(task.job.key, 0) + sign * count
    return bound


def _effects(session: Session, plan: Plan) -> None:
    writers_of: dict[int, list[BindEffects]] = {}  # by shape
    for move in session.committed:
        if move.kind is not _ALLOCATE:
            continue
        shape = move.task.shape
        writers = writers_of.get(shape.id)
        if writers is None:
            writers = writers_of[shape.id] = [p for p in session.effecters if p.concerns(shape)]
        if writers or session.pickers or session.sharers:
            for task in move.tasks:
                _add_effects(session, plan, task, writers)


def _add_effects(session: Session, plan: Plan, task: Task, writers: Sequence[BindEffects]) -> None:
    effects = [e for p in writers for e in p.effects(task, task.node)]
    if effects:
        plan.effects[task.key] = effects
    for picker in session.pickers:
        ids = picker.devices(task)
        if ids is not None:
            plan.devices[task.key] = ids
    for sharer in session.sharers:
        shares = sharer.shares(task)
        if shares is not None:
            plan.shares[task.key] = shares


class PlannedJobs:
    """Adds jobs to a plan: their phases, the reasons of their pods and the conditions of their groups."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self._session = session
        self._plan = plan
        self._groups = session.state.objects["PodGroup"]
        self._bound = _bound(session)
        # Of jobs of one class: what they have in common → what `_at_close` says; what happened to them → why they wait
        self._known: dict[tuple[object, ...], tuple[bool, str]] = {}
        self._causes: dict[tuple[object, ...], Cause] = {}

    def add(self, job: Job) -> None:
        if job.single_class is not None:
            self._add_single(job, job.single_class)
            return
        plan, count = self._plan, job.count
        unbound = count[_PENDING] + count[_PIPELINED] + count[_ALLOCATED]
        waiting = [] if unbound == self._bound.get(job.key, 0) else [
            t for t in job.tasks.values()
            if _IS_UNBOUND[t.status] and t.key not in plan.binds
        ]  # fmt: skip
        ready, phase = self._at_close(job, bool(waiting))
        if self._session.explains:
            _report(self._session, job, plan, waiting, ready)
        if phase != self._session.phases.get(job.key, job.phase):
            plan.phases[job.key] = phase
        elif ready and not unbound and not job.is_pending:
            job.settled = job.generation

    def _add_single(self, job: Job, job_class: SingleJobClass) -> None:
        """The same for a job of one pod that has a class."""
        plan, key = self._plan, job.key
        (task,) = job.tasks.values()
        unbound = _IS_UNBOUND[task.status]
        waits = unbound and task.key not in plan.binds
        same = job_class, task.status, job.phase, waits
        known = self._known.get(same)
        if known is None:
            known = self._known[same] = self._at_close(job, waits)
        ready, phase = known
        if self._session.explains:
            if waits:
                self._report_single(job, task, ready, same)
            elif ready and key in self._groups:
                plan.conditions[key] = _READY
        if phase != job_class.phase:
            plan.phases[key] = phase
        elif ready and not unbound and not job.is_pending:
            job.settled = job.generation

    def _report_single(self, job: Job, task: Task, ready: bool, same: tuple[object, ...]) -> None:
        """Adds the reason of the job's pod: the same for all jobs of a class to which the same happened."""
        plan, attempt, key = self._plan, job.attempt, task.key
        happened = (
            *same, plan.pipelined.get(key), id(attempt.refusal), attempt.unfit.get(key), key in attempt.over_quota,
            attempt.would_fit.get(key), attempt.divided,
        )  # fmt: skip
        cause = self._causes.get(happened)
        if cause is None:
            gang = "" if ready else gang_line(job, [task])
            cause = self._causes[happened] = _cause(self._session, job, task, plan, gang, is_gang=False)
        plan.reasons[key] = cause.reason
        if cause.gang:
            plan.conditions[job.key] = Condition.unschedulable(cause.gang, key, cause.why)

    def add_class(self, cls: JobClass) -> None:
        """Adds the jobs of a class, which wait in their phase. Those that were taken out of it are added by `add`."""
        session, plan = self._session, self._plan
        attempts = session.class_attempts.get(cls)
        if attempts is None:  # no action has asked about them, or all are taken
            attempts = [((job.created, job.key), Attempt()) for job in (cls.first(),) if job is not None]
        causes = [(rank, self._cause_of(cls.jobs[rank[1]], attempt)) for rank, attempt in attempts]
        if cls.report is None:
            cls.report = ClassReport()
        cls.report.update(cls, causes)
        plan.reasons.update(cls.report.reasons)
        plan.conditions.update(cls.report.conditions)
        for job in session.taken:
            if job.key in cls.jobs:
                plan.conditions.pop(job.key, None)
                for pod in job.tasks:
                    del plan.reasons[pod]

    def _cause_of(self, job: Job, attempt: Attempt) -> Cause:
        """Returns why this job of a class waits if that happened to it in this cycle."""
        job.attempt, before = attempt, job.attempt
        waiting = list(job.tasks.values())
        gang = "" if self._session.ready(job) else gang_line(job, waiting)
        cause = _cause(self._session, job, waiting[0], self._plan, gang, is_gang=False)
        job.attempt = before
        return cause

    def _at_close(self, job: Job, waits: bool) -> tuple[bool, str]:
        """Returns whether the job is ready, and its phase after the cycle."""
        ready = job.queue is not None and self._session.ready(job)
        return ready, phase_at_close(job, unschedulable=waits and not ready)


def _report(session: Session, job: Job, plan: Plan, waiting: list[Task], ready: bool) -> None:
    """Adds the reasons of the job's pods and the condition of its group to the plan."""
    if job.tasks and not waiting:
        if ready and job.key in session.state.objects["PodGroup"]:
            plan.conditions[job.key] = _READY  # only an object has conditions
        return
    gang = gang_line(job, waiting) if waiting and not ready else ""
    is_gang = max(job.min_available, job.roles_total) > 1
    origins: list[tuple[bool, str, str]] = []
    for task in waiting:
        cause = _cause(session, job, task, plan, gang, is_gang=is_gang)
        if gang:
            origins.append((cause.reason.code in FOLLOWS, task.key, cause.why))
        plan.reasons[task.key] = cause.reason
    if gang:
        _, pod, why = min(origins)
        plan.conditions[job.key] = Condition.unschedulable(gang, pod, why)
    elif not job.tasks and job.is_pending and (refusal := _refusal(job)) is not None:
        # Volcano's controller creates the pods of a Job when its group is admitted.
        plan.conditions[job.key] = Condition("Unschedulable", "NotEnoughResources", refusal.text)


def _cause(session: Session, job: Job, task: Task, plan: Plan, gang: str, *, is_gang: bool) -> Cause:
    """Returns why a pod waits. The condition of its group has Volcano's line in any case, the reason of the pod only if
    it waits for other pods.
    """
    reason = first_cause(session, job, task, plan)
    text = reason.text
    if reason.code != "pipelined":  # a pod that only waits for promised capacity to become free is not unschedulable
        text = f"{text} {gang}" if gang and is_gang else text
        text = f"unschedulable on cluster: {text}" if job.attempt.divided else text
    return Cause(PodReason(reason.code, text), gang, reason.text)


def phase_at_close(job: Job, *, unschedulable: bool) -> str:
    """Returns the PodGroup's phase after the cycle, as Volcano's job updater computes it."""
    count = job.count
    if count[_RUNNING] and unschedulable:
        return "Unknown"
    finished = count[_SUCCEEDED] + count[_FAILED]
    scheduled = count[_RUNNING] + count[_BOUND] + finished
    if count[_RELEASING] and (scheduled < job.min_available or scheduled == finished):
        scheduled += sum(1 for t in job.tasks.values() if t.status == Status.RELEASING and t.node >= 0)
    if scheduled >= job.min_available:
        # Volcano sets a group with minimum 0 to Completed before anything ran; muster does not copy that.
        if scheduled and scheduled == finished:
            return "Completed"
        if scheduled:
            return "Running"
    return "Inqueue" if job.phase == "Inqueue" else "Pending"


def gang_line(job: Job, waiting: list[Task]) -> str:
    """Returns Volcano's message about the group: how many of its pods are missing, and the states of its pods.

    Volcano counts what the minimum lacks even if there are fewer pods ("3/1 tasks"); here the number of missing pods is
    at most the number of pending pods.
    """
    fit = sum([t.key in job.attempt.would_fit for t in waiting]) if job.attempt.would_fit else 0
    short = min(max(job.min_available - job.ready - fit, 0) or len(waiting), len(waiting))
    return _gang_line(short, len(job.tasks), tuple(job.count), job.min_available, len(waiting) - fit, fit)


@lru_cache(maxsize=4096)
def _gang_line(short: int, tasks: int, count: tuple[int, ...], minimum: int, unfit: int, fit: int) -> str:
    states = sorted(f"{count[s]} {s.name.capitalize()}" for s in Status if count[s])
    pending = [f"{n} {word}" for n, word in ((unfit, "Unschedulable"), (fit, "Schedulable")) if n]
    return (
        f"{short}/{tasks} tasks in gang unschedulable: pod group is not ready, "
        f"{', '.join(states)}, {minimum} minAvailable; Pending: {', '.join(pending)}."
    )


class LastingCauses:
    """Why pods of a signature can never be placed on the nodes of this cycle, whoever is evicted."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[int, str] = {}

    def of(self, task: Task) -> str:
        """Returns the causes in kube-scheduler's format; empty if some node could take the pod, or if pods of
        too many signatures wait in this cycle.
        """
        signature = self._session.signature(task)
        known = self._known.get(signature)
        if known is None:
            if len(self._known) >= _MOST_SIGNATURES:
                return ""
            able = self._session.placement.might_ever_fit(task)
            known = self._known[signature] = "" if able else fit_error(self._session, task)
        return known


def _no_queue(job: Job) -> PodReason:
    return PodReason("no-queue", f"queue {job.queue_name} does not exist; create it or name another in the group.")


def _refusal(job: Job) -> PodReason | None:
    """Returns why no pod of the group can be considered; None if the group was not refused."""
    if job.queue is None:
        return _no_queue(job)
    refusal = job.attempt.refusal
    return None if refusal is None else PodReason(refusal.code, _sentence(refusal.message(-1)))


def first_cause(session: Session, job: Job, task: Task, plan: Plan) -> PodReason:
    attempt = job.attempt
    if task.gated:
        gates = ", ".join(g.name for g in task.pod.spec.scheduling_gates)
        return PodReason("gated", f"Scheduling is blocked due to non-empty scheduling gates: {gates}.")
    if job.queue is None:
        return _no_queue(job)
    if task.key in plan.pipelined:
        return PodReason("pipelined", _pipelined(session, job, task, plan))
    if task.key in attempt.unfit:
        if task.key in attempt.over_quota:
            return _lasting_first(session, task, PodReason("over-quota", _sentence(attempt.unfit[task.key])))
        return PodReason("unschedulable", _sentence(attempt.unfit[task.key]))
    if (refusal := _refusal(job)) is not None:
        passes = attempt.refusal is not None and attempt.refusal.resolvable
        return _lasting_first(session, task, refusal) if passes else refusal
    if attempt.unfit:
        other = min(attempt.unfit)
        return PodReason("gang", f"{_sentence(attempt.unfit[other])[:-1]} (pod {other} of the same group).")
    actions = session.config.actions
    if job.is_pending and "enqueue" in actions:
        reason = PodReason("not-enqueued", "the pod group has not been admitted to its queue.")
        return _lasting_first(session, task, reason)
    placer = "backfill" if task.best_effort else "allocate"
    if placer not in actions:
        requests = "requests nothing" if task.best_effort else "has requests"
        return PodReason("no-action", f"the pod {requests}, and the configuration has no {placer} action.")
    if task.key in attempt.would_fit:
        node = session.state.nodes.names[attempt.would_fit[task.key]]
        return PodReason("gang", f"could be assigned to {node} once the group's minimum is satisfied.")
    return _lasting_first(session, task, PodReason("waiting", "waits for its turn in the queue."))


def _lasting_first(session: Session, task: Task, reason: PodReason) -> PodReason:
    """Names the cause that will last before a cause that may pass."""
    lasting = session.shared(LastingCauses).of(task)
    return PodReason("unschedulable", f"{lasting} Also: {reason.text}") if lasting else reason


def _pipelined(session: Session, job: Job, task: Task, plan: Plan) -> str:
    """Returns what a pod with a promised node waits for: terminating pods on its node, or the rest of its group."""
    node = plan.pipelined[task.key]
    if _releases(session, node):
        return f"waits for capacity that is being released on node {node}."
    promised = ((key, plan.pipelined[key]) for key in job.tasks if key in plan.pipelined)
    others = [key for key, at in promised if _releases(session, at)]
    if others:
        return f"is promised node {node} and waits for pod {min(others)} of its group, whose node is being released."
    return f"is promised node {node} and waits to be bound."


def _releases(session: Session, node: str) -> bool:
    nodes = session.state.nodes
    return any(t.status == Status.RELEASING for t in nodes.on[nodes.rank[node]].values())


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


