"""The plugin interface: one small abstract class per extension point.

A plugin is a class whose base classes are its extension points (`class Gang(Plugin, JobValid, JobOrder, ...)`). It is
made once per configuration and opened once per cycle. Everything about nodes is asked about *all nodes at once*: a
A `NodeView` has columns, an answer is an array with one entry per column. A view may be the whole cluster, a few
changed nodes, or hypothetical columns that have one node several times ("with two more of these pods"), so an answer
must be computed element by element from the view alone; that is what makes cached, sliced and batched answers equal to
fresh answers.

The `switch` of an extension point is the key that turns it off in the configuration file (Volcano's spelling).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from muster.engine.core.node_hooks import (
    BindEffects,
    DevicePicker,
    NodeFilter,
    NodeNotes,
    NodeScorer,
    NodeSets,
    Picture,
    SharedDevices,
)
from muster.engine.core.values import (
    Batch,
    Bools,
    Effect,
    Floats,
    Hook,
    Index,
    NodeSet,
    NodeSetError,
    Opinion,
    Reason,
    Scope,
    Verdict,
    Vote,
)

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.jobs import Job, Queue, Shape, Task
    from muster.engine.core.requirements import Requirement
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move
    from muster.engine.evictions.claim import Claim
    from muster.model.finding import Finding
    from muster.model.meta import Object

__all__ = [
    "Batch", "BindEffects", "Bools", "Deadlines", "DevicePicker", "Effect", "Floats", "Hook", "Index", "JobEnqueue",
    "JobOrder", "JobPipelined", "JobReady", "JobStarving", "JobValid", "Ledger", "NodeFilter", "NodeNotes",
    "NodeScorer", "NodeSet", "NodeSetError", "NodeSets", "Opinion", "Overused", "Picture", "Plugin", "Preemptable",
    "Preemptive", "Protection", "QueueOrder", "QueueQuota", "QueueShares", "Reason", "Reclaimable", "Scope",
    "SharedDevices", "TaskOrder", "Verdict", "VictimHints", "VictimQueueOrder", "Vote",
]  # fmt: skip


class Plugin(ABC):
    """The base class of all plugins. It is made once per configuration, and opened and closed once per cycle."""

    name: ClassVar[str]  # as in the configuration file
    arguments: ClassVar[dict[str, str]] = {}  # name (or `prefix*`) → what it means, and its default
    reads: ClassVar[tuple[type[Object], ...]] = ()  # kinds that must be watched for it; `Session.objects` has them

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        self.option = option

    def open(self, session: Session) -> None:  # noqa: B027 - optional
        """The engine calls this at the start of a cycle."""

    def close(self, session: Session) -> None:  # noqa: B027 - optional
        """The engine calls this at the end of a cycle, before its placements are taken back from the engine's state."""

    def signature(self, task: Task) -> Hashable | None:
        """Returns what this plugin's filters and scores read of the task besides its shape (its spec), or None."""
        return None

    def cluster_signature(self, task: Task) -> Hashable | None:
        """Returns what this plugin's terms of scope CLUSTER read of the task besides shape and `signature`, or None.
        """
        return None

    def signs(self, shape: Shape) -> bool:
        """Returns whether `signature` or `cluster_signature` may differ between tasks of this shape.

        If no plugin's do, the engine requests the signature of one task of the shape only.
        """
        return True

    def reads_labels(self) -> bool:
        """Returns whether answers of this cycle depend on the labels of pods without an owner; asked after `open`."""
        return False

    @classmethod
    def check(cls, arguments: Arguments) -> list[Finding]:
        """Returns the faults in the arguments, each at its line. Typed readers already report most of them."""
        return []

    @classmethod
    def examine(cls, session: Session) -> list[Finding]:
        """Returns the findings of `muster validate` about the cluster by this plugin's rules."""
        return []

    @classmethod
    def required_by(cls, state: State) -> Iterable[Requirement]:
        """Returns what objects require and only this plugin provides. It is called without configuration, too."""
        return ()

    def effective(self) -> dict[str, object]:
        """Returns the arguments as they were understood, in the form of a configuration."""
        return dict(self.option.arguments)


# --- jobs ------------------------------------------------------------------------------------------------------------


class JobValid(Hook):
    """Refuses jobs that must not be scheduled."""

    @abstractmethod
    def valid(self, job: Job) -> Reason | None:
        """Returns why the job must not be scheduled; None: it may. The first plugin that objects decides."""


class JobEnqueue(Hook):
    """Admits pending groups to scheduling."""

    switch = "enableJobEnqueued"

    @abstractmethod
    def enqueueable(self, job: Job) -> Vote: ...

    def refusal(self, job: Job) -> Reason:
        """Returns why `enqueueable` rejected, with the inequality and its numbers."""
        return Reason("enqueue", "it gives no reason")

    def equal_votes(self, job: Job, count: int) -> int:
        """Returns how many of `count` jobs of one kind get the first one's vote if each is admitted; at least 1."""
        return 1

    def enqueued(self, job: Job) -> None:
        """The job was admitted."""

    def all_enqueued(self, job: Job, count: int) -> None:
        """So many jobs of one class were admitted; `job` is one of them."""
        for _ in range(count):
            self.enqueued(job)

    def yields(self, job: Job) -> bool:
        """Returns True if a rejection only means lack of capacity: preempt and reclaim may still serve the job."""
        return False


class JobReady(Hook):
    """Decides when a job has enough pods to be bound."""

    switch = "enableJobReady"

    @abstractmethod
    def missing(self, job: Job) -> int:
        """Returns 0 if the job is ready, else how many more of its tasks must at least be allocated before it can be.

        May depend on the job, its tasks and its group only: jobs that do not change are not asked about again.
        """


class JobPipelined(Hook):
    """Decides when a job has enough pods on capacity that is still being freed."""

    switch = "enableJobPipelined"

    @abstractmethod
    def pipelined(self, job: Job) -> Vote: ...


class JobStarving(Hook):
    """Decides which jobs may evict pods of others."""

    switch = "enableJobStarving"

    @abstractmethod
    def starving(self, job: Job) -> bool: ...


# --- order -----------------------------------------------------------------------------------------------------------


class QueueOrder(Hook):
    """Decides which queue is scheduled next."""

    switch = "enableQueueOrder"

    @abstractmethod
    def queue_cmp(self, a: Queue, b: Queue) -> int:
        """Returns a negative number if a goes before b."""

    def ancestors(self, queue: Queue) -> Sequence[str]:
        """Returns the queue's ancestors in a tree of queues, the root's child first.

        A placement changes the order of its queue and of the queues under the same ancestors against the others, and
        nothing else.
        """
        return ()

    def reorder_epoch(self) -> int:
        """Returns how often in this cycle a placement has reordered queues regardless of their ancestors."""
        return 0


class VictimQueueOrder(Hook):
    """Decides which queue gives up its pods first."""

    @abstractmethod
    def victim_queue_cmp(self, a: Queue, b: Queue, claimer: Queue) -> int:
        """Returns a negative number if victims of a go before victims of b."""


class JobOrder(Hook):
    """Decides which job of a queue is scheduled next."""

    switch = "enableJobOrder"

    @abstractmethod
    def job_key(self, job: Job) -> float:
        """Returns a key; the smaller goes first. It may depend on this job's placements only, not on other jobs'."""


class Deadlines(Hook):
    """Declares that answers about jobs change with time alone."""

    @abstractmethod
    def next_deadline(self) -> float | None:
        """Returns when the next answer about a pending job changes; None: never."""


class TaskOrder(Hook):
    """Decides which pod of a job is scheduled next."""

    switch = "enableTaskOrder"

    @abstractmethod
    def task_key(self, task: Task) -> float:
        """Returns a key; the smaller goes first."""

    def task_keys(self, tasks: Sequence[Task]) -> Sequence[float]:
        """Returns the keys of several pods, usually of one job."""
        return [self.task_key(task) for task in tasks]


# --- queues and victims ----------------------------------------------------------------------------------------------


class QueueQuota(Hook):
    """Limits what a queue may be allocated. (Volcano: allocatable)"""

    switch = "enabledAllocatable"

    @abstractmethod
    def admits(self, queue: Queue, task: Task, count: int) -> int:
        """Returns how many of `count` such tasks the queue may be allocated now, one after the other."""

    @abstractmethod
    def quota_refusal(self, queue: Queue, task: Task) -> Reason:
        """Returns why it admits none: the inequality with its numbers."""

    def usage(self, queue: Queue) -> Sequence[tuple[Mapping[str, int], Mapping[str, float]]]:
        """Returns (usage, limit) of the queue and of every ancestor that limits it, as of now.

        All queues below an ancestor return the same mapping as its usage.
        """
        return ()

    def closed(self, queue: Queue) -> Reason | None:
        """Returns why the queue admits nothing at all; None if it may."""
        return None


class QueueShares(Hook):
    """Reports what each queue deserves; takes no part in decisions."""

    @abstractmethod
    def deserved(self) -> dict[str, dict[str, float]]:
        """Returns the amounts of each queue by resource, in internal units."""


class Overused(Hook):
    """Decides which queues get nothing more for now."""

    switch = "enabledOverused"

    @abstractmethod
    def overused(self, queue: Queue) -> Reason | None: ...

    def until_overused(self, queue: Queue, task: Task, count: int) -> int:
        """Returns how many of `count` such tasks may be allocated before the answer may change; at least 1."""
        return 1


class Preemptive(Hook):
    """Decides whether a queue may claim capacity from other queues for a task."""

    switch = "enablePreemptive"

    @abstractmethod
    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Returns whether the queue may claim capacity for this one pod (`compatibility: volcano` only)."""

    def deserves(self, queue: Queue, amounts: Mapping[str, int]) -> bool:
        """Returns whether the queue would stay within its deserved share of every resource with these amounts."""
        return True

    def undeserved(self, queue: Queue, amounts: Mapping[str, int]) -> Reason:
        """Returns why `deserves` is False: the inequality with its numbers."""
        return Reason("queue-share", f"queue {queue.name} would have more than it deserves")


class Protection(Hook):
    """Protects pods from eviction, whatever the plugin's tier. It cannot be switched off."""

    by_shape: ClassVar[bool] = False  # `protects_always` depends on the namespace and the shape of a pod alone

    @abstractmethod
    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        """Returns why these pods of one job must not be evicted; None: they may.

        The accounts are current: what the claim evicts besides has already been released.
        """

    def protects_always(self, task: Task) -> bool:
        """Returns True if this pod is never a victim."""
        return False

    def protects_queue(self, claim: Claim, queue: Queue) -> bool:
        """Returns whether no pod of this queue is a victim of the claim."""
        return False

    def gives_at_most(self, claim: Claim, queue: Queue) -> Mapping[str, float]:
        """Returns, by resource, the most that victims of this queue may free, as the accounts are now.

        It only saves searches: `protects` would end them in any case.
        """
        return {}


class VictimHints(Hook):
    """Optional shortcuts of the two victim hooks: an answer for a whole job, or for all jobs."""

    opinion: ClassVar[Opinion] = Opinion.ANSWER  # how muster's rules use the plugin's answer

    def inactive(self, rule: str) -> bool:
        """Returns True if the plugin takes no part in this cycle's "reclaim" (or "preempt")."""
        return False

    def never_victim(self, job: Job) -> bool:
        """Returns True if the plugin names no pod of the job, whoever claims; evictions must not change that."""
        return False


class Preemptable(VictimHints):
    """Which candidates may be evicted for `claimer`, inside one queue."""

    switch = "enablePreemptable"

    @abstractmethod
    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None:
        """Returns one answer per candidate, in the given (victim) order; None: the plugin has no opinion."""


class Reclaimable(VictimHints):
    """Which candidates may be evicted for `claimer`, across queues."""

    switch = "enableReclaimable"

    @abstractmethod
    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None: ...


class Ledger(Hook):
    """Keeps a plugin's accounts current. `released` is the exact inverse of `allocated`; integers only."""

    @abstractmethod
    def allocated(self, move: Move) -> None:
        """The move's tasks now occupy capacity on their nodes (allocated, pipelined, or an eviction was undone)."""

    @abstractmethod
    def released(self, move: Move) -> None:
        """The move's tasks no longer occupy it (undone, or evicted)."""
