"""Queues share the cluster by weight: what a queue deserves is what it may hold, and what others may take it down to.

Only queues that have jobs take part in the division (`divide`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct, field

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import (
    Opinion,
    Overused,
    Plugin,
    Protection,
    QueueOrder,
    Reason,
    Reclaimable,
)
from muster.engine.core.jobs import Queue, Task
from muster.engine.core.resources import ALWAYS, SLACK, add, at_most, count_within, empty, total_of
from muster.engine.core.session import Session
from muster.engine.evictions.claim import RECLAIM, Claim
from muster.engine.queues import accounts
from muster.engine.queues.accounted_queues import AccountedQueues
from muster.engine.queues.accounts import Account
from muster.engine.queues.job_sums import JobSums
from muster.engine.queues.limits import Origin, capabilities
from muster.model.quantity import display

__all__ = ["Proportion"]


class WeightedQueue(Struct):
    """A queue in the division by weight."""

    weight: int
    request: Mapping[str, int]
    real: Mapping[str, int]  # real capability
    guarantee: Mapping[str, int]
    deserved: dict[str, float] = field(default_factory=dict)


def divide(total: Mapping[str, int], parts: Sequence[WeightedQueue]) -> None:
    """Sets `deserved` of every queue, in rounds until nothing remains or changes."""
    remaining = {name: float(amount) for name, amount in total.items()}
    unmet = list(parts)
    while unmet:
        weights = sum(part.weight for part in unmet)
        before = dict(remaining)
        grown: dict[str, float] = {}
        shrunk: dict[str, float] = {}
        still = []
        for part in unmet:
            old = part.deserved
            part.deserved = _grow(part, remaining, part.weight / weights)
            if not at_most(part.request, part.deserved) and part.deserved != old:
                still.append(part)
            for name, amount in part.deserved.items():
                change = amount - old.get(name, 0.0)
                into = grown if change > 0 else shrunk
                into[name] = into.get(name, 0.0) + abs(change)
        for name in remaining:
            left = remaining[name] + shrunk.get(name, 0.0) - grown.get(name, 0.0)
            # Never negative: guarantees may add up to more than the cluster has, and a rounding error of the last round
            # must not reduce what a queue has been given.
            remaining[name] = max(left, 0.0)
        if empty(remaining) or remaining == before:
            return
        unmet = still


def _grow(part: WeightedQueue, remaining: Mapping[str, float], fraction: float) -> dict[str, float]:
    """Returns the deserved amounts after one more round: at most the real capability and the request, at least the
    guarantee.
    """
    deserved = dict(part.deserved)
    for name, amount in remaining.items():
        deserved[name] = deserved.get(name, 0.0) + amount * fraction
    for name, amount in deserved.items():
        if name in part.real or name in ALWAYS:
            amount = min(amount, float(part.real.get(name, 0)))
        deserved[name] = min(amount, float(part.request.get(name, 0)))
    for name, least in part.guarantee.items():
        deserved[name] = max(deserved.get(name, 0.0), float(least))
    return deserved


class Proportion(Plugin, AccountedQueues, QueueOrder, Overused, Protection, Reclaimable):
    name = "proportion"
    opinion = Opinion.REST

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._accounts: dict[str, Account] = {}
        self._weights = 0  # the sum over the queues that take part
        self._sums = JobSums(accounts.parts)
        self._fixed: tuple[object, ...] = ()  # what the limits depend on
        self._limits: dict[str, tuple[Origin, dict[str, int]]] = {}  # queue → its real capability, and whence
        self._asked: list[object] = []  # what the last division depends on
        self._divided: list[dict[str, float]] = []

    def open(self, session: Session) -> None:
        total = total_of(session.state.nodes)
        promised = accounts.promised(session.queues.values())
        admits = "enqueue" in session.config.actions
        self._accounts = {}
        self._sums.follow(session.state)
        parts: list[WeightedQueue] = []
        fixed = (session.state.queues, total, promised)
        if fixed != self._fixed:
            self._fixed, others = fixed, list(session.queues.values())
            self._limits = {
                queue.name: (
                    Origin(total, "the cluster", others, capabilities(queue)),
                    accounts.real_capability(total, promised, queue.guarantee, queue.capability),
                )
                for queue in others
            }
        for queue in session.queues.values():
            if not queue.jobs:
                continue
            account = self._accounts[queue.name] = Account(queue)
            account.origin, account.real = self._limits[queue.name]
            account.allocated, request, inqueue, elastic = self._sums.of(queue.name)
            if admits:
                account.inqueue, account.elastic = inqueue, elastic
            parts.append(WeightedQueue(queue.weight, request, account.real, queue.guarantee))
        self._weights = sum(part.weight for part in parts)
        asked: list[object] = [total, *((part.weight, part.request, part.real, part.guarantee) for part in parts)]
        if asked != self._asked:
            divide(total, parts)
            self._asked, self._divided = asked, [part.deserved for part in parts]
        for account, deserved in zip(self._accounts.values(), self._divided, strict=True):
            account.deserved = deserved

    # --- order and limits

    def queue_cmp(self, a: Queue, b: Queue) -> int:
        """Orders by higher spec.priority, then by the smaller usage of the deserved share."""
        if a.priority != b.priority:
            return -1 if a.priority > b.priority else 1
        left, right = self._share(a), self._share(b)
        return (left > right) - (left < right)

    def _share(self, queue: Queue) -> float:
        account = self._accounts.get(queue.name)
        return account.share if account is not None else 0.0

    def overused(self, queue: Queue) -> Reason | None:
        account = self._accounts[queue.name]
        if account.lacks({}):
            return None
        parts = (
            f"{name} allocated {display(name, account.allocated.get(name, 0))} >= "
            f"{account.share_text(name, self._weights)}"
            for name, amount in account.deserved.items()
            if amount or account.allocated.get(name, 0)
        )
        return Reason("queue-overused", f"queue {queue.name} is overused: {', '.join(parts) or 'its share is nothing'}")

    def until_overused(self, queue: Queue, task: Task, count: int) -> int:
        account, request = self._accounts[queue.name], task.shape.amounts
        if account.lacks(request):
            return count
        least = 1
        for name, amount in request.items():
            if amount and (lacking := account.deserved.get(name, 0) - account.allocated.get(name, 0)) >= SLACK:
                least = max(least, int(lacking // amount))  # rounded down: `overused` itself decides
        return min(least, count)

    def admits(self, queue: Queue, task: Task, count: int) -> int:
        account = self._accounts[queue.name]
        if account.refuses() is not None:
            return 0
        return count_within(account.allocated, account.deserved, task.shape.amounts, count)

    def quota_refusal(self, queue: Queue, task: Task) -> Reason:
        account = self._accounts[queue.name]
        words = partial(account.share_text, weights=self._weights)
        text = account.quota_message(task.shape.amounts, account.deserved, words)
        return account.refuses() or Reason("queue-quota", text)

    def usage(self, queue: Queue) -> Sequence[tuple[Mapping[str, int], Mapping[str, float]]]:
        account = self._accounts[queue.name]
        return ((account.allocated, account.deserved),)

    def preemptive(self, queue: Queue, task: Task) -> bool:
        return self.admits(queue, task, 1) == 1

    def deserves(self, queue: Queue, amounts: Mapping[str, int]) -> bool:
        return self._accounts[queue.name].deserves(amounts)

    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        account = self._accounts.get(victims[0].job.queue_name) if victims[0].job is not None else None
        return account.protects(claim, victims) if account is not None else None

    def protects_queue(self, claim: Claim, queue: Queue) -> bool:
        account = self._accounts.get(queue.name)
        return claim.rule == RECLAIM and account is not None and account.gives_nothing(claim)

    def gives_at_most(self, claim: Claim, queue: Queue) -> Mapping[str, float]:
        account = self._accounts.get(queue.name)
        return account.gives_at_most(claim) if account is not None else {}

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        """Names pods of queues that use more than they deserve, as long as they do."""
        used: dict[str, dict[str, int]] = {}
        answers = []
        for task in candidates:
            account = self._accounts.get(task.job.queue_name) if task.job is not None else None
            if account is None:
                answers.append(False)
                continue
            allocated = used.get(account.queue.name)
            if allocated is None:
                allocated = used[account.queue.name] = dict(account.allocated)
            beyond = not at_most(allocated, account.deserved)
            if beyond:
                add(allocated, task.shape.amounts, -1)
            answers.append(beyond)
        return answers
