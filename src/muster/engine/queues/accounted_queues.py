"""What the plugins with an account for each queue have in common: admission, and accounts that follow every move.

The limits of a queue's ancestors hold as well; without a tree of queues an account has no ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.core.hooks import JobEnqueue, Ledger, Preemptive, QueueQuota, QueueShares, Reason, Vote
from muster.engine.core.jobs import Job, Queue
from muster.engine.core.resources import add
from muster.engine.core.statement import Move
from muster.engine.queues.accounts import Account, minimum, without_gated

__all__ = ["AccountedQueues"]


class AccountedQueues(QueueQuota, QueueShares, Preemptive, JobEnqueue, Ledger):
    """A plugin that keeps an account for each queue; it makes them when it is opened."""

    _accounts: dict[str, Account]

    def deserved(self) -> dict[str, dict[str, float]]:
        return {name: dict(account.deserved) for name, account in self._accounts.items()}

    def closed(self, queue: Queue) -> Reason | None:
        return self._accounts[queue.name].refuses()

    def undeserved(self, queue: Queue, amounts: Mapping[str, int]) -> Reason:
        return self._accounts[queue.name].undeserved(amounts)

    # --- admission

    def _overrun(self, job: Job) -> Account | None:
        least = minimum(job)
        for account in self._accounts[job.queue_name].chain:
            if account.overruns(least):
                return account
        return None

    def enqueueable(self, job: Job) -> Vote:
        refused = self._accounts[job.queue_name].refuses() is not None or self._overrun(job) is not None
        return Vote.REJECT if refused else Vote.PERMIT

    def refusal(self, job: Job) -> Reason:
        account = self._accounts[job.queue_name]
        full = self._overrun(job) or account
        return account.refuses() or Reason("queue-capability", full.overrun_message(minimum(job)))

    def yields(self, job: Job) -> bool:
        return self._accounts[job.queue_name].refuses() is None

    def equal_votes(self, job: Job, count: int) -> int:
        least = minimum(job)
        return min(each.admits(least, count) for each in self._accounts[job.queue_name].chain)

    def enqueued(self, job: Job) -> None:
        self.all_enqueued(job, 1)

    def all_enqueued(self, job: Job, count: int) -> None:
        least = without_gated(job, minimum(job))
        for each in self._accounts[job.queue_name].chain:
            add(each.inqueue, least, count)

    # --- accounts

    def allocated(self, move: Move) -> None:
        self._move(move, len(move.tasks))

    def released(self, move: Move) -> None:
        self._move(move, -len(move.tasks))

    def _move(self, move: Move, times: int) -> None:
        account = self._accounts.get(move.job.queue_name) if move.job is not None else None
        if account is not None:
            for each in account.chain:
                each.move(move.task.shape.amounts, times)
