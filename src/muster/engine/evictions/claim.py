"""Claims and eviction units: for which job capacity is freed, and which pods are evicted together.

The rules are muster's (docs/decisions/0015-evictions.md). A job is evicted in units: the pods that it has above its
minimum one by one, and otherwise all its pods that hold a node. Every protection is asked about a unit with the
accounts as they are once the units before it are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from muster.engine.core.hooks import Protection, Reason
from muster.engine.core.jobs import Job, Queue, Status, Task
from muster.engine.core.resources import add, asked
from muster.engine.core.subgroups import SubGroup, sub_group_tree
from muster.engine.evictions.budgets import Budgets

if TYPE_CHECKING:
    from muster.engine.core.session import Session

RECLAIM, PREEMPT = "reclaim", "preempt"
PLACED_STATUSES = (Status.BINDING, Status.BOUND, Status.RUNNING, Status.UNKNOWN)
_EVICTABLE = (Status.BOUND, Status.RUNNING)
_COUNTED = (Status.BINDING, Status.BOUND, Status.RUNNING, Status.SUCCEEDED)
# As integers, because they are looked up for every victim.
_BINDING, _BOUND, _RUNNING, _SUCCEEDED = (int(status) for status in _COUNTED)
_TAKEN = Reason("leaving", "it is evicted with another unit, or its promise is withdrawn")
_NO_QUEUE = Reason("no-queue", "its queue does not exist")
_SAME_JOB = Reason("same-job", "it belongs to the claiming job")
_OTHER_JOB = Reason("other-job", "a job that replaces its own pods takes nothing from other jobs")


class Claim(Struct):
    """A job that needs capacity for some of its pods, and the action that looks for it."""

    rule: str  # "reclaim" | "preempt"
    job: Job
    queue: Queue
    tasks: list[Task]
    # reclaim: a whole job may take its queue below what it deserves; preempt: promises may be taken
    last_resort: bool = False
    request: dict[str, int] = field(default_factory=dict)  # Σ of the tasks, without `pods`
    priority: int = 0  # of the job
    pod_priority: int = 0  # the lowest of the pods that may be placed
    resources: frozenset[str] = frozenset()  # that the pods that may be placed request, without `pods`
    within: bool = False  # preempt: victims are pods of the claiming job itself
    never_victims: frozenset[str] = frozenset()  # jobs that claimed from this one
    usage: dict[str, dict[str, int]] = field(default_factory=dict)  # queue → its usage when the claim began
    # The pods that may be placed, if others of the job may take the place of `tasks`.
    order: Sequence[Task] = ()

    def __post_init__(self) -> None:
        self.request = dict(asked(request_of(self.tasks)))
        self.priority = effective_priority(self.job)
        order = self.order or self.tasks
        self.pod_priority = min((task.priority for task in order), default=0)
        shapes = {task.shape.id: task.shape for task in order}
        self.resources = frozenset(name for shape in shapes.values() for name, _ in asked(shape.amounts))

    def usage_before(self, queue: str, now: dict[str, int]) -> dict[str, int]:
        """Returns the usage of the queue when the claim began; called before any of its pods is evicted."""
        found = self.usage.get(queue)
        if found is None:
            found = self.usage[queue] = dict(now)
        return found


def request_of(tasks: Sequence[Task]) -> dict[str, int]:
    if len(tasks) == 1:
        return dict(tasks[0].shape.amounts)
    total: dict[str, int] = {}
    for shape, count in Counter([task.shape for task in tasks]).items():
        add(total, shape.amounts, count)
    return total


def effective_priority(job: Job) -> int:
    """Returns the priority of the PodGroup's class; of a group without one its pods' highest priority."""
    if job.has_priority_class or not job.tasks:
        return job.priority
    return max(task.priority for task in job.tasks.values())


class Unit(Struct, frozen=True):
    """Pods of one job that are evicted together."""

    tasks: tuple[Task, ...]
    whole: bool  # all that the job has on nodes
    priority: int  # the highest of its pods
    created: float  # of its oldest pod
    promise: bool = False  # nothing runs: a promise of capacity to the job is withdrawn

    @property
    def job(self) -> Job:
        job = self.tasks[0].job
        assert job is not None
        return job

    @property
    def cost(self) -> tuple[float, ...]:
        """Returns a key; the smaller goes first: lower priority, fewer pods, surplus before a whole job, the newest."""
        return (self.priority, len(self.tasks), self.whole, -self.created)


class Veto(NamedTuple):
    """Why a pod is not evicted, and the plugin that protects it; without a plugin it is a rule of the engine."""

    plugin: str
    reason: Reason


class Units:
    """The units of one cycle."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.budgets = session.shared(Budgets)
        self._protections = session.flat(Protection)
        self._always = [p for p in self._protections if type(p).protects_always is not Protection.protects_always]
        self._leaf: dict[str, dict[str, SubGroup]] = {}  # job → pod → its sub-group
        self._priority: dict[str, int] = {}  # by job; constant within a cycle

    def priority(self, job: Job) -> int:
        known = self._priority.get(job.key)
        if known is None:
            known = self._priority[job.key] = effective_priority(job)
        return known

    def candidates(self, claim: Claim, job: Job) -> list[Task]:
        """Returns the job's pods that may be victims at all."""
        if self.excluded(claim, job) is not None:
            return []
        tasks: Iterable[Task] = job.tasks.values()
        if job.count[_BOUND] + job.count[_RUNNING] < len(job.tasks):
            tasks = [t for t in tasks if t.status in _EVICTABLE]
        found = [t for t in tasks if t.node >= 0 and t.preemptable]
        if claim.rule != RECLAIM:
            found = [t for t in found if t.priority < claim.pod_priority]
        for protection in self._always:
            if protection.by_shape and found:
                first = found[0].shape
                asked = [found[0], *{t.shape: t for t in found if t.shape is not first}.values()]
            else:
                asked = found
            if any(protection.protects_always(t) for t in asked):
                found = [t for t in found if not protection.protects_always(t)]
        return found

    def excluded(self, claim: Claim, job: Job) -> Reason | None:
        """Returns why no pod of the job may be a victim of the claim; None: some may."""
        queue = job.queue
        if queue is None:
            return _NO_QUEUE
        if job.key in claim.never_victims:
            return Reason("counterclaim", lambda _: f"{job.shown} claimed from {claim.job.shown} not long ago")
        if claim.rule == RECLAIM:
            if queue is claim.queue:
                return Reason("same-queue", lambda _: f"reclaim evicts from other queues, and it is in {queue.name}")
            if not queue.reclaimable:
                return Reason("not-reclaimable", lambda _: f"queue {queue.name} has reclaimable: false")
            return None
        if claim.within:
            return None if job is claim.job else _OTHER_JOB
        if job is claim.job:
            return _SAME_JOB
        if queue is not claim.queue:
            return Reason("other-queue", lambda _: f"preempt evicts inside queue {claim.queue.name} only")
        if self.priority(job) >= claim.priority:
            return Reason("priority", lambda _: not_lower(self.priority(job), claim.priority))
        return None

    def protects_queue(self, claim: Claim, queue: Queue) -> bool:
        # Every protection is asked: each records what the queue has before anything is evicted.
        answers = [protection.protects_queue(claim, queue) for protection in self._protections]
        return any(answers)

    def gives_at_most(self, claim: Claim, queue: Queue) -> dict[str, float]:
        """Returns, by resource, the most that all further victims of the queue together may free."""
        return least_of(protection.gives_at_most(claim, queue) for protection in self._protections)

    def single(self, task: Task) -> Unit:
        return Unit((task,), False, task.priority, task.created)

    def surplus(self, job: Job) -> int:
        """Returns how many pods the job has above its minimum, roles and sub-groups not considered.

        A job that is evicted as a whole or not at all has none."""
        if job.disrupted_whole:
            return 0
        return max(_counted_pods(job) - job.min_available, 0)

    def placed_pods(self, job: Job) -> int:
        return sum([job.count[status] for status in PLACED_STATUSES])

    def needed(self, task: Task) -> Reason | None:
        """Returns which minimum of the job, role or sub-group would be lost with this pod; None: it is surplus."""
        job = task.job
        assert job is not None
        if not self.surplus(job):
            return Reason("gang-minimum", lambda _: _job_minimum(job))
        if job.roles and job.min_available >= job.roles_total:
            least = job.roles.get(task.role, 0)
            if least and (has := _counted(t for t in job.tasks.values() if t.role == task.role)) <= least:
                return Reason("gang-minimum", lambda _: _minimum(f"role {task.role} of gang {job.shown}", least, has))
        spec = job.group.spec
        if not spec.sub_groups and not spec.sub_group_policy:
            return None
        leaf = self._leaf_of(job).get(task.key)
        # A sub-group below its minimum has nothing to lose.
        if leaf is None or not leaf.minimum or (has := _counted(leaf.own)) != leaf.minimum:
            return None
        name, least = leaf.name, leaf.minimum
        return Reason("gang-minimum", lambda _: _minimum(f"sub-group {name} of gang {job.shown}", least, has))

    def _leaf_of(self, job: Job) -> dict[str, SubGroup]:
        found = self._leaf.get(job.key)
        if found is None:
            root = sub_group_tree(job)
            groups = root.groups() if root is not None else ()
            found = self._leaf[job.key] = {task.key: group for group in groups for task in group.own}
        return found

    def protected(self, claim: Claim, unit: Unit) -> Veto | None:
        """Returns why the unit must not be evicted; None: it may be evicted now.

        The texts of some reasons are made when they are read, with the accounts at that time.
        """
        if unit.promise:
            return None if unit.tasks[0].status == Status.PIPELINED else Veto("", _TAKEN)
        for task in unit.tasks:
            if task.status not in PLACED_STATUSES:
                return Veto("", _TAKEN)  # a part of it was evicted with another unit
        if not unit.whole and (reason := self.needed(unit.tasks[0])) is not None:
            return Veto("", reason)
        if (veto := self.plugin_veto(claim, unit.tasks)) is not None:
            return veto
        reason = self.budgets.refuses(unit.tasks)
        return None if reason is None else Veto("", reason)

    def plugin_veto(self, claim: Claim, tasks: Sequence[Task]) -> Veto | None:
        """Returns the first plugin that protects these pods of one job, and why."""
        for protection in self._protections:
            reason = protection.protects(claim, tasks)
            if reason is not None:
                return Veto(getattr(protection, "name", ""), reason)
        return None


def least_of(limits: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the smallest limit of each resource that has any."""
    found: dict[str, float] = {}
    for each in limits:
        for name, most in each.items():
            found[name] = min(most, found.get(name, most))
    return found


def not_lower(priority: int, than: int) -> str:
    return f"priority {priority} is not lower than {than}"


def _job_minimum(job: Job) -> str:
    if job.disrupted_whole:
        return f"gang {job.shown} is evicted as a whole or not at all"
    return _minimum(f"gang {job.shown}", job.min_available, _counted_pods(job))


def _counted_pods(job: Job) -> int:
    count = job.count
    return count[_BINDING] + count[_BOUND] + count[_RUNNING] + count[_SUCCEEDED]


def _minimum(of: str, least: int, has: int) -> str:
    return f"{of} needs {least} of its {has} running pods"


def _counted(tasks: Iterable[Task]) -> int:
    return sum(1 for task in tasks if task.status in _COUNTED)
