"""Decides which pods of other queues may be reclaimed: those beyond a queue's deserved share, never its guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.engine.core.jobs import Task
from muster.engine.core.resources import ALWAYS, add, asked, at_most
from muster.engine.queues.accounts import Account


class Walk:
    """Evaluates candidates in victim order; each victim lowers the usage of its queue for the next candidate."""

    def __init__(self, accounts: Mapping[str, Account], claimer: Task, level: int) -> None:
        self._accounts = accounts
        self._level = level  # ancestorReclaimLevel
        self._held: dict[str, dict[str, int]] = {}
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
        held = self._holds(account)
        left = {name: held.get(name, 0) - request.get(name, 0) for name in account.guarantee}
        if not at_most(account.guarantee, left) or not exceeds(account, held, request):
            return False
        if self._level and not self._ancestors_agree(account, request):
            return False
        add(held, request, -1)
        if self._level:
            for ancestor in account.ancestors:
                add(self._holds(ancestor), request, -1)
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
        return all(exceeds(a, self._holds(a), request) for a in nearest if a not in shared)

    def _holds(self, account: Account) -> dict[str, int]:
        held = self._held.get(account.queue.name)
        if held is None:
            held = self._held[account.queue.name] = dict(account.allocated)
        return held


def relevant(account: Account, request: Mapping[str, int]) -> bool:
    """Returns whether the queue deserves a resource that the pod requests. Volcano: here `pods` counts as well."""
    return any(amount > 0 and account.deserved.get(name, 0) > 0 for name, amount in request.items())


def exceeds(account: Account, held: Mapping[str, int], request: Mapping[str, int]) -> bool:
    """Returns whether the queue uses more than it deserves of a resource that the pod requests.

    A resource that the queue does not deserve at all may always be taken.
    """
    deserved = account.deserved
    if not relevant(account, request):
        return True
    return any(
        name in deserved and (deserved[name] > 0 or name not in ALWAYS) and held.get(name, 0) > deserved[name]
        for name, _ in asked(request)
    )
