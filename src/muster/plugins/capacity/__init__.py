"""Queues with amounts instead of weights: each may grow to its capability, and be taken back to what it deserves.

With `enableHierarchy` queues form a tree (spec.parent): jobs are in the leaves, the limits of all ancestors apply as
well, and the usage of a leaf counts for all its ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import (
    Opinion,
    Plugin,
    Protection,
    QueueOrder,
    Reason,
    Reclaimable,
    VictimQueueOrder,
)
from muster.engine.core.jobs import Queue, Task
from muster.engine.core.resources import ALWAYS, add, asked, at_most, count_within, empty, total_of
from muster.engine.core.session import Session
from muster.engine.evictions.claim import RECLAIM, Claim, least_of
from muster.engine.queues import accounts
from muster.engine.queues.accounted_queues import AccountedQueues
from muster.engine.queues.accounts import Account
from muster.engine.queues.job_sums import JobSums
from muster.plugins.capacity.tree import flat, shared_level, tree

__all__ = ["Capacity"]


class Capacity(Plugin, AccountedQueues, QueueOrder, VictimQueueOrder, Protection, Reclaimable):
    name = "capacity"
    opinion = Opinion.REST
    arguments = {
        "ancestorReclaimLevel": "with enableHierarchy: how many levels above a queue also decide what is reclaimed (0)"
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._tree = option.enabled("enableHierarchy")
        self._level = arguments.int("ancestorReclaimLevel", 0, minimum=0) if self._tree else 0
        self._accounts: dict[str, Account] = {}
        self._idle: set[str] = set()  # queues that deserve nothing
        self._sums = JobSums(accounts.parts)

    def open(self, session: Session) -> None:
        admits = "enqueue" in session.config.actions
        build = tree if self._tree else flat
        self._accounts = build(session.queues, total_of(session.state.nodes))
        self._idle = {name for name, account in self._accounts.items() if empty(account.deserved)}
        self._sums.follow(session.state)
        for name, queue in session.queues.items():
            if not queue.jobs:
                continue
            account = self._accounts[name]
            if account.inner and account.fault is None:
                text = f"queue {name} has child queues: jobs belong into queues without any"
                account.fault = Reason("queue-not-leaf", text, resolvable=False)
            allocated, _, reserved, elastic = self._sums.of(name)
            for each in account.chain:
                add(each.allocated, allocated)
                if admits:
                    add(each.inqueue, reserved)
                    add(each.elastic, elastic)

    # --- order

    def queue_cmp(self, a: Queue, b: Queue) -> int:
        """Orders by higher spec.priority, then the smaller share, then queues with a deserved amount before others.

        In a tree leaves go first; two leaves compare their ancestors just below the deepest common ancestor.
        """
        if a.priority != b.priority:
            return -1 if a.priority > b.priority else 1
        left, right = self._accounts[a.name], self._accounts[b.name]
        if left.inner != right.inner:
            return 1 if left.inner else -1
        if self._tree and not left.inner:
            below = shared_level(left, right) + 1
            left = left.ancestors[below] if below < len(left.ancestors) else left
            right = right.ancestors[below] if below < len(right.ancestors) else right
        # Volcano: a queue that deserves nothing has a share of 1, and comes after a queue that uses all it deserves.
        mine, other = left.queue.name in self._idle, right.queue.name in self._idle
        one, two = 1.0 if mine else left.share, 1.0 if other else right.share
        return ((one > two) - (one < two)) or mine - other

    def ancestors(self, queue: Queue) -> Sequence[str]:
        account = self._accounts[queue.name]
        above = [ancestor.queue.name for ancestor in account.ancestors[1:]]
        return [*above, queue.name] if account.inner else above  # placements below an inner queue change its share

    def victim_queue_cmp(self, a: Queue, b: Queue, claimer: Queue) -> int:
        """Orders queues that are closer to the claimer in the tree first."""
        own = self._accounts[claimer.name]
        return shared_level(self._accounts[b.name], own) - shared_level(self._accounts[a.name], own)

    # --- limits

    def admits(self, queue: Queue, task: Task, count: int) -> int:
        account = self._accounts[queue.name]
        if account.refuses() is not None:
            return 0
        for each in account.chain:
            count = count_within(each.allocated, each.real, task.shape.amounts, count)
        return count

    def quota_refusal(self, queue: Queue, task: Task) -> Reason:
        account = self._accounts[queue.name]
        request = task.shape.amounts
        full = next((a for a in account.chain if not count_within(a.allocated, a.real, request, 1)), account)
        return account.refuses() or Reason("queue-quota", full.quota_message(request, full.real, full.capability_text))

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Returns whether the queue may use it, and deserves it in at least one of the requested resources."""
        account = self._accounts[queue.name]
        request = task.shape.amounts
        if account.refuses() is not None or not count_within(account.allocated, account.real, request, 1):
            return False
        nearest = (account, *account.ancestors[1:][::-1][: self._level])
        return any(
            each.allocated.get(name, 0) + amount <= each.deserved.get(name, 0)
            for each in nearest
            for name, amount in asked(request)
        )

    def usage(self, queue: Queue) -> Sequence[tuple[Mapping[str, int], Mapping[str, float]]]:
        return [(account.allocated, account.real) for account in self._accounts[queue.name].chain]

    def deserves(self, queue: Queue, amounts: Mapping[str, int]) -> bool:
        """Returns whether the queue (with `ancestorReclaimLevel`, or an ancestor) deserves the amounts."""
        account = self._accounts[queue.name]
        return any(each.deserves(amounts) for each in (account, *self._above(account)))

    def _above(self, account: Account) -> Sequence[Account]:
        """Returns the ancestors that decide about reclaim besides the queue itself, nearest first."""
        return account.ancestors[1:][::-1][: self._level]

    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        queue = victims[0].job.queue if victims[0].job is not None else None
        if queue is None or claim.rule != RECLAIM:
            return None
        if self._for_the_ancestor(claim, queue, victims[0]):
            return Reason("queue-share", f"what queue {queue.name} holds is for a common ancestor to give")
        return next((why for each in self._asked(claim, queue) if (why := each.protects(claim, victims))), None)

    def protects_queue(self, claim: Claim, queue: Queue) -> bool:
        return claim.rule == RECLAIM and any(each.gives_nothing(claim) for each in self._asked(claim, queue))

    def gives_at_most(self, claim: Claim, queue: Queue) -> Mapping[str, float]:
        if claim.rule != RECLAIM:
            return {}
        return least_of(each.gives_at_most(claim) for each in self._asked(claim, queue))

    def _for_the_ancestor(self, claim: Claim, queue: Queue, victim: Task) -> bool:
        """Volcano: under a common ancestor, a leaf that deserves none of the requested resources does not take any
        that another leaf does not deserve either.
        """
        account, own = self._accounts[queue.name], self._accounts[claim.queue.name]
        shared = any(each in own.ancestors for each in self._above(account))
        return shared and not relevant(account, victim.shape.amounts) and not relevant(own, claim.request)

    def _asked(self, claim: Claim, queue: Queue) -> list[Account]:
        """Returns the victim's queue and its ancestors that decide, without common ancestors of the claimer."""
        account = self._accounts[queue.name]
        shared = self._accounts[claim.queue.name].ancestors
        return [account, *(each for each in self._above(account) if each not in shared)]

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return Walk(self._accounts, claimer, self._level).answers(candidates)


class Walk:
    """Evaluates candidates in victim order; each victim lowers the usage of its queue for the next candidate."""

    def __init__(self, accounts: Mapping[str, Account], claimer: Task, level: int) -> None:
        self._accounts = accounts
        self._level = level  # ancestorReclaimLevel
        self._used: dict[str, dict[str, int]] = {}
        self._request = claimer.shape.amounts
        self._wanted = {name for name, _ in asked(self._request)}
        self._own = accounts.get(claimer.job.queue_name) if claimer.job is not None else None

    def answers(self, candidates: Sequence[Task]) -> list[bool]:
        return [self._take(task) for task in candidates]

    def _take(self, task: Task) -> bool:
        account = self._accounts.get(task.job.queue_name) if task.job is not None else None
        request = task.shape.amounts
        if account is None or not any(amount > 0 and name in self._wanted for name, amount in request.items()):
            return False
        used = self._usage(account)
        left = {name: used.get(name, 0) - request.get(name, 0) for name in account.guarantee}
        if not at_most(account.guarantee, left) or not exceeds(account, used, request):
            return False
        if self._level and not self._ancestors_agree(account, request):
            return False
        add(used, request, -1)
        if self._level:
            for ancestor in account.ancestors:
                add(self._usage(ancestor), request, -1)
        return True

    def _ancestors_agree(self, account: Account, request: Mapping[str, int]) -> bool:
        """Returns whether the nearest ancestors that the claimer does not share exceed their deserved share as well.

        Under a common ancestor a leaf that deserves none of the requested resources does not take resources that
        another leaf does not deserve either: only the ancestor can give them.
        """
        mine = self._own.ancestors if self._own is not None else ()
        nearest = account.ancestors[1:][::-1][: self._level]
        shared = [a for a in nearest if a in mine]
        if shared and not relevant(account, request) and not (self._own and relevant(self._own, self._request)):
            return False
        return all(exceeds(a, self._usage(a), request) for a in nearest if a not in shared)

    def _usage(self, account: Account) -> dict[str, int]:
        used = self._used.get(account.queue.name)
        if used is None:
            used = self._used[account.queue.name] = dict(account.allocated)
        return used


def relevant(account: Account, request: Mapping[str, int]) -> bool:
    """Returns whether the queue deserves a resource that the pod requests. Volcano: here `pods` counts as well."""
    return any(amount > 0 and account.deserved.get(name, 0) > 0 for name, amount in request.items())


def exceeds(account: Account, used: Mapping[str, int], request: Mapping[str, int]) -> bool:
    """Returns whether the queue uses more than it deserves of a resource that the pod requests.

    A resource that the queue does not deserve at all may always be taken.
    """
    deserved = account.deserved
    if not relevant(account, request):
        return True
    return any(
        name in deserved and (deserved[name] > 0 or name not in ALWAYS) and used.get(name, 0) > deserved[name]
        for name, _ in asked(request)
    )
