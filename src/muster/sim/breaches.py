"""What the evictions of a run broke: gangs left below their minimum, and PodDisruptionBudgets.

muster's own rules of eviction allow neither; `compatibility: volcano` allows both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.state import State
from muster.engine.evictions.budgets import ledger_of

_BOUND = (Status.BINDING, Status.BOUND, Status.RUNNING)


class Breaches:
    """Follows the evictions of one run."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._complete: set[str] = set()  # jobs that had their minimum when a pod of theirs was evicted
        self._budgets: dict[str, None] = {}

    def note(self, evicted: Collection[str]) -> None:
        """The scheduler evicts these pods at the same time. The state must not show it yet."""
        self.note_gangs(evicted)
        tasks = self._tasks(evicted)
        if tasks:
            self._budgets.update(dict.fromkeys(self._violated(tasks)))

    def note_gangs(self, evicted: Collection[str]) -> None:
        """The same for evictions through the Eviction API, which holds the budgets itself."""
        for task in self._tasks(evicted):
            if task.job is not None and _members(task.job) >= task.job.min_available:
                self._complete.add(task.job.key)

    def _tasks(self, evicted: Collection[str]) -> list[Task]:
        return [self.state.tasks[key] for key in evicted if key in self.state.tasks]

    def _violated(self, evicted: list[Task]) -> Iterator[str]:
        ledger = ledger_of(self.state)
        counts = Counter(key for task in evicted for key in ledger.uses(task.pod))
        for key, count in sorted(counts.items()):
            if count > (allowed := ledger.left(key)):
                yield f"PodDisruptionBudget {key} is violated: {count} evicted in one cycle, {allowed} allowed"

    def warnings(self) -> list[str]:
        """What is broken at the end of the run. The state must show the end."""
        return [*self._partial(), *self._budgets]

    def _partial(self) -> Iterator[str]:
        for key in sorted(self._complete):
            job = self.state.jobs.get(key)
            if job is None or not any(job.count[status] for status in _BOUND):
                continue
            if (members := _members(job)) < job.min_available:
                yield f"evictions left gang {key} below its minimum: {members} of {job.min_available} pods are bound"


def _members(job: Job) -> int:
    """Pods that count for the minimum: bound and not terminating, or completed."""
    return sum(job.count[status] for status in (*_BOUND, Status.SUCCEEDED))
