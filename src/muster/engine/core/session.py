"""One cycle's view of the cluster and of its plugins, and the rules by which plugins' answers combine.

The plugins are in tiers, in the order of the configuration. How answers combine differs from one extension point to
the next (Volcano's rules): orders take the first difference, filters must all agree, votes are counted
tier by tier, victims are intersected within a tier. All of that is here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar, cast

from muster.config.types import Arguments, Config
from muster.engine.core.backlog import JobClass, Rank
from muster.engine.core.hooks import (
    BindEffects,
    Deadlines,
    DevicePicker,
    Hook,
    JobEnqueue,
    JobOrder,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    Ledger,
    NodeFilter,
    NodeScorer,
    NodeSets,
    Overused,
    Plugin,
    Preemptive,
    QueueOrder,
    QueueQuota,
    Reason,
    SharedDevices,
    TaskOrder,
    VictimQueueOrder,
    Vote,
)
from muster.engine.core.job_order import JobKeys, in_order
from muster.engine.core.jobs import Attempt, Job, Queue, Status, Task
from muster.engine.core.signatures import Signatures
from muster.engine.core.single_jobs import classify_single_jobs
from muster.engine.core.state import State
from muster.engine.core.statement import Move, Statement, revert
from muster.engine.core.tiers import Tiers
from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.promises import Promises
from muster.engine.placement.placement import Placement
from muster.engine.placement.turns import Turns
from muster.model.meta import Object

H = TypeVar("H", bound=Hook)
S = TypeVar("S")
T = TypeVar("T", bound=Object)
Message = str | Callable[[], str]  # a function: a long message is made only when it is read
Log = Callable[[int, Message], None]
# Measures how long a plugin or action (the first name) takes for a step (the second).
Measure = Callable[[str, str], AbstractContextManager[None]]
_NOT_ADMITTED = Reason("not-admitted", "the group is not admitted")  # where no reasons are given
_PENDING = int(Status.PENDING)  # looked up for every job in every cycle
OPEN, CLOSE, ACTION = "OnSessionOpen", "OnSessionClose", "action"


def silent(level: int, message: Message) -> None:
    """Discards log messages."""


def unmeasured(part: str, step: str) -> AbstractContextManager[None]:
    """Measures nothing."""
    return nullcontext()


class Session:
    def __init__(
        self, state: State, config: Config, tiers: Sequence[Sequence[Plugin]], now: float, log: Log = silent,
        measure: Measure = unmeasured, *, explains: bool = True, classes_in: tuple[str, ...] = (),
        turns: Turns | None = None, equal_answers: bool = False,
    ) -> None:  # fmt: skip
        """`explains`: whether the cycle gives reasons; `classes_in`: see `State.active`; `turns`: who observes it;
        `equal_answers`: whether no plugin looks at the names of jobs and pods.
        """
        state.refresh()
        self.explains = explains
        self.equal_answers = equal_answers
        self.turns = turns
        self.state = state
        self.config = config
        self.tiers = tiers if isinstance(tiers, Tiers) else Tiers(tuple(tier) for tier in tiers)
        self.now = now
        self.log = log
        self._measure = measure
        self.committed: list[Move] = []  # will be executed
        self.reserved: list[Move] = []  # reserved until the cycle ends, then reverted
        self.warnings: list[str] = []  # for the administrator of the scheduler
        # A job whose queue does not exist is not in the session.
        self.jobs: Mapping[str, Job] = state.jobs_of_queues()
        # The jobs that may need a decision; most jobs of a large cluster only run.
        self.active: dict[str, Job] = state.active(config, classes_in, plain=explains)
        self.taken: list[Job] = []  # jobs that were taken out of their classes
        # What happened to the jobs of a class: from which job on, and what; later entries are about younger jobs.
        self.class_attempts: dict[JobClass, list[tuple[Rank, Attempt]]] = {}
        # Whether all answers about single jobs of a class are equal: with deadlines they depend on time.
        self.timeless = not self.tiers.flat(Deadlines)
        self.phases = {key: job.phase for key, job in self.active.items()}
        self.queues: dict[str, Queue] = dict(sorted(state.queues.items()))
        self._signatures = Signatures(self.tiers)
        self.signature, self.equal_shape = self._signatures.of, self._signatures.equal_shape
        self.node_signature = self._signatures.of_columns
        self.ledgers: list[Ledger] = []
        self._shared: dict[object, object] = {}
        self.placement = Placement(self)
        self.volcano = config.compatibility == "volcano"  # Volcano's rules of eviction instead of muster's
        self.evicts = "preempt" in config.actions or "reclaim" in config.actions
        # With muster's evictions a pod waits only if no placement can serve it: allocate then leaves out Volcano's
        # shortcut for roles, which may pass over a pod that fits.
        self.sound = self.evicts and not self.volcano
        self.promises = Promises(self)
        if self.evicts:
            self.shared(Budgets)  # follows every eviction of the cycle
        for plugin in self.plugins:
            with measure(_name(plugin), OPEN):
                plugin.open(self)
        self._gather()
        if equal_answers:
            classify_single_jobs(self.active.values(), state.objects["PodGroup"], self._reads_labels)
        if not self.volcano:
            self.promises.open()

    @property
    def plugins(self) -> list[Plugin]:
        return self.tiers.plugins

    def _reads_labels(self) -> bool:
        return any(plugin.reads_labels() for plugin in self.plugins)

    def arguments(self, action: str) -> Arguments:
        """Returns the `configurations` entry of an action."""
        return self.config.configurations.get(action) or Arguments({})

    def objects(self, kind: type[T]) -> Mapping[str, T]:
        """Returns the objects of a kind by key (`namespace/name`, cluster-scoped: `name`); not Pods and Nodes."""
        return cast("Mapping[str, T]", self.state.objects.get(kind.__name__, {}))

    def shared(self, kind: Callable[[Session], S]) -> S:
        """Returns the one object of a class in this cycle, made at the first call. A Ledger then follows every move.

        To be asked for in `Plugin.open`: an object made later would not know of the moves before it.
        """
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind(self)
            if isinstance(found, Ledger):
                self.ledgers.insert(0, found)
        return cast(S, found)

    # --- which plugins answer what

    def tiered(self, hook: type[H]) -> list[list[H]]:
        """Returns the plugins that have this hook and are not switched off, tier by tier; not to be modified."""
        return self.tiers.tiered(hook)

    def flat(self, hook: type[H]) -> list[H]:
        return self.tiers.flat(hook)

    def _gather(self) -> None:
        self.ledgers = [*(s for s in self._shared.values() if isinstance(s, Ledger)), *self.flat(Ledger)]
        self._valid = self.flat(JobValid)
        self._ready = self.flat(JobReady)
        self._quota = self.flat(QueueQuota)
        self._overused = self.flat(Overused)
        self._preemptive = self.flat(Preemptive)
        self._queue_order = self.flat(QueueOrder)
        self._reordering = [p for p in self._queue_order if type(p).reorder_epoch is not QueueOrder.reorder_epoch]
        self._victim_queues = self.flat(VictimQueueOrder)
        self._job_keys = JobKeys(self.flat(JobOrder), timeless=self.timeless)
        self._task_order = self.flat(TaskOrder)
        self._enqueue = self.tiered(JobEnqueue)
        self._pipelined = self.tiered(JobPipelined)
        self._starving = self.tiered(JobStarving)
        self.dividers = self.flat(NodeSets)
        self.pickers = self.flat(DevicePicker)
        self.sharers = self.flat(SharedDevices)
        self.effecters = self.flat(BindEffects)
        self.placement.gather(
            [(str(_name(p)), term) for p in self.flat(NodeFilter) for term in p.filters()],
            [(str(_name(p)), term) for p in self.flat(NodeScorer) for term in p.scorers()],
        )

    # --- tasks

    def in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Returns the tasks in the order in which they are placed."""
        return in_order(self._task_order, tasks)

    # --- jobs

    def job_key(self, job: Job, *, plugins_only: bool = False) -> tuple[object, ...]:
        asked = self._job_keys.of(job)
        return asked if plugins_only else (*asked, job.created, job.key)

    def in_job_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Returns the jobs in the order of `job_key`."""
        return self._job_keys.in_order(jobs)

    def valid(self, job: Job) -> Reason | None:
        job_class = job.single_class if self.timeless else None
        if job_class is not None and job_class.valid and job_class.holds(job):
            return None
        for plugin in self._valid:
            reason = plugin.valid(job)
            if reason is not None:
                return reason
        if job_class is not None and job_class.holds(job):
            job_class.valid = True
        return None

    def missing(self, job: Job) -> int:
        most = 0
        for plugin in self._ready:
            if (own := plugin.missing(job)) > most:
                most = own
        return most

    def ready(self, job: Job) -> bool:
        return not self.missing(job)

    def pipelined(self, job: Job) -> bool:
        return _vote(self._pipelined, lambda p: p.pipelined(job)) is None

    def enqueueable(self, job: Job) -> Reason | None:
        """Returns why the job may not be admitted; None if it may."""
        against = _vote(self._enqueue, lambda p: p.enqueueable(job))
        if against is None:
            return None
        if not self.explains and not self.evicts:
            return _NOT_ADMITTED
        job.attempt.may_evict = not self.volcano and self.evicts and all(
            plugin.yields(job) for tier in self._enqueue for plugin in tier if plugin.enqueueable(job) < 0
        )
        reason = against.refusal(job)
        text = f"plugin {_name(against)} does not admit the group: {reason.message()}"
        return Reason(reason.code, text, reason.resolvable)

    def equal_votes(self, job: Job, count: int) -> int:
        """Returns how many of `count` jobs of one class are admitted if the first is."""
        return min([p.equal_votes(job, count) for tier in self._enqueue for p in tier], default=count)

    def enqueued(self, job: Job, count: int = 1) -> None:
        """So many jobs of one class were admitted; `job` is one of them."""
        for plugin in (p for tier in self._enqueue for p in tier):
            plugin.all_enqueued(job, count)

    def starving(self, job: Job) -> bool:
        for tier in self._starving:
            if tier:
                return all(p.starving(job) for p in tier)
        return False

    # --- queues

    def queue_cmp(self, a: Queue, b: Queue) -> int:
        for plugin in self._queue_order:
            order = plugin.queue_cmp(a, b)
            if order:
                return order
        return -1 if (a.created, a.name) < (b.created, b.name) else 1

    def queue_ancestors(self, queue: Queue) -> Sequence[str]:
        """Returns the queue's ancestors; where plugins have different trees, those of the first plugin that has any."""
        return next((found for p in self._queue_order if (found := p.ancestors(queue))), ())

    def queue_reorder_epoch(self) -> int:
        return sum([p.reorder_epoch() for p in self._reordering])

    def victim_queue_cmp(self, a: Queue, b: Queue, claimer: Queue) -> int:
        for plugin in self._victim_queues:
            order = plugin.victim_queue_cmp(a, b, claimer)
            if order:
                return order
        return -self.queue_cmp(a, b)

    def admits(self, queue: Queue, task: Task, count: int = 1) -> int:
        for plugin in self._quota:
            count = min(count, plugin.admits(queue, task, count))
            if count <= 0:
                return 0
        return count

    def admits_unlisted(self, queue: Queue, task: Task, count: int) -> bool:
        """Returns whether the plugins that limit the queue, but report no usage, admit this number of such tasks."""
        return all(p.admits(queue, task, count) >= count for p in self._quota if not p.usage(queue))

    def quota_refusal(self, queue: Queue, task: Task) -> Reason | None:
        return next((p.quota_refusal(queue, task) for p in self._quota if p.admits(queue, task, 1) < 1), None)

    def overused(self, queue: Queue) -> Reason | None:
        for plugin in self._overused:
            if (reason := plugin.overused(queue)) is not None:
                return reason
        return None

    def until_overused(self, queue: Queue, task: Task, count: int) -> int:
        """Returns how many of `count` such tasks may be allocated before `overused` is asked again."""
        return min((p.until_overused(queue, task, count) for p in self._overused), default=count)

    def preemptive(self, queue: Queue, task: Task) -> bool:
        return all(p.preemptive(queue, task) for p in self._preemptive)

    def deserves(self, queue: Queue, amounts: Mapping[str, int]) -> bool:
        """Returns whether the queue may reclaim these amounts: with them it is at or below its deserved share."""
        # Even if it is switched off: reclaim ends because a queue reclaims no more than its deserved share.
        return all(p.deserves(queue, amounts) for p in self.plugins if isinstance(p, Preemptive))

    def undeserved(self, queue: Queue, amounts: Mapping[str, int]) -> Reason | None:
        """Returns why the queue may not reclaim these amounts; None: it may."""
        asked = [p for p in self.plugins if isinstance(p, Preemptive)]
        return next((p.undeserved(queue, amounts) for p in asked if not p.deserves(queue, amounts)), None)

    def usage(self, queue: Queue) -> list[tuple[Mapping[str, int], Mapping[str, float]]]:
        """Returns (allocated, limit) of the queue and of its ancestors."""
        return [pair for p in self._quota for pair in p.usage(queue)]

    def closed(self, queue: Queue) -> Reason | None:
        quotas = [p for p in self.plugins if isinstance(p, QueueQuota)]
        return next((reason for p in quotas if (reason := p.closed(queue)) is not None), None)

    # --- jobs that wait in classes

    def waiting_classes(self, *, pending: bool) -> list[JobClass]:
        """Returns the classes of jobs that wait to be admitted, or that are admitted."""
        backlog = self.state.unsettled.backlog
        found = () if backlog is None else backlog.classes.values()
        return [cls for cls in found if cls.pending == pending]

    def take(self, job: Job) -> None:
        """Takes a job out of its class for this cycle."""
        if job.key not in self.active:
            self.active[job.key] = job
            self.phases[job.key] = job.phase
            self.taken.append(job)

    def refuse_class(self, cls: JobClass, job: Job) -> None:
        """What happened to this job of a class holds for the younger ones, too."""
        self.class_attempts.setdefault(cls, []).append(((job.created, job.key), job.attempt))
        job.attempt = Attempt()

    # --- the end

    def statement(self) -> Statement:
        return Statement(self)

    def close(self) -> None:
        """Plugins first, then every placement is taken back: the state is as it was, bit by bit."""
        for plugin in reversed(self.plugins):
            with self._measure(_name(plugin), CLOSE):
                plugin.close(self)
        # Moves interlock (a pod is pipelined onto what an eviction frees), but each changes only integers: any order is
        # exact for the columns; reverse order is exact for the ledgers, too.
        for move in reversed(self.committed + self.reserved):
            revert(self, move)
        self._signatures.forget()
        for key, phase in self.phases.items():
            job = self.active[key]
            job.phase, job.single_class = phase, None
        for job in self.taken:
            job.attempt = Attempt()


def _name(plugin: object) -> str:
    return getattr(plugin, "name", type(plugin).__name__)


def _vote(tiers: Sequence[Sequence[H]], ask: Callable[[H], Vote]) -> H | None:
    """Volcano: one rejection decides at once; a tier with a permission decides; no objection: permitted.

    The answer is the plugin that rejected, or None.
    """
    for tier in tiers:
        permitted = False
        for plugin in tier:
            vote = ask(plugin)
            if vote < 0:
                return plugin
            permitted = permitted or vote > 0
        if permitted:
            return None
    return None


def candidates(job: Job) -> list[Task]:
    """Returns the pods of the job that wait for a node: pending, not gated."""
    if not job.count[_PENDING]:
        return []
    return [t for t in job.tasks.values() if t.status == _PENDING and not t.gated]
