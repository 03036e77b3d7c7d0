"""The extension points about victims of evictions: protections, and which candidates a plugin gives up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from muster.engine.values import Hook, Opinion, Reason

if TYPE_CHECKING:
    from muster.engine.claim import Claim
    from muster.engine.jobs import Job, Queue, Task


class Protection(Hook):
    """Victims that this plugin never gives up, in whatever tier it stands. It cannot be switched off."""

    @abstractmethod
    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        """Why these pods of one job must stay; None: they may go.

        Asked with the current accounts: what the claim evicts besides is already gone.
        """

    def protects_always(self, task: Task) -> bool:
        """True: this pod is never a victim, whoever claims."""
        return False

    def protects_queue(self, claim: Claim, queue: Queue) -> bool:
        """True: no pod of this queue is a victim of the claim."""
        return False


class Sparing(Hook):
    """What both victim hooks may add: a quick answer about whole jobs, or about all of them."""

    opinion: ClassVar[Opinion] = Opinion.ANSWER  # how muster's own rules use the plugin's answer

    def abstains(self, rule: str) -> bool:
        """True: this plugin has no say in this cycle's "reclaim" (or "preempt") at all."""
        return False

    def spares(self, job: Job) -> bool:
        """True: as the job stands, this plugin names none of its pods, whoever asks (evictions only confirm it)."""
        return False


class Preemptable(Sparing):
    """Which candidates may be evicted for `claimer`, inside one queue."""

    switch = "enablePreemptable"

    @abstractmethod
    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None:
        """One answer per candidate, in the given (victim) order; None abstains."""


class Reclaimable(Sparing):
    """Which candidates may be evicted for `claimer`, across queues."""

    switch = "enableReclaimable"

    @abstractmethod
    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None: ...
