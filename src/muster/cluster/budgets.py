"""PodDisruptionBudgets whose status the input gives: the number of disruptions allowed follows the pods.

The given number stands for the pods as the input has them. From there on every covered pod that is no longer ready
takes one off, and every one that becomes ready gives one back, as Kubernetes' controller would count.
"""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.model.core import Pod, PodDisruptionBudget
from muster.model.pod_states import is_healthy
from muster.model.selectors import matches
from muster.store import Change


class Budgets:
    """Keeps the budgets' status; those without one are left to whoever reads them."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._watch = store.watch(str(store.version), (Pod,))
        self._allowed: dict[str, int] = {}  # budget → what it allows by count, which may be below zero
        self._covering: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}  # namespace, labels → budgets
        self._ready: dict[str, list[str]] = {}  # ready pod → its budgets
        for key, budget in sorted(store.of(PodDisruptionBudget).items()):
            if budget.status.disruptions_allowed is not None:
                self._allowed[key] = budget.status.disruptions_allowed
        for key, pod in store.of(Pod).items() if self._allowed else ():
            self._note(key, pod, 0)

    def run(self) -> bool:
        """Write the numbers that changed; whether there were any."""
        events = self._watch.take()
        if not self._allowed:
            return False
        for event in events:
            if isinstance(event.object, Pod):
                self._note(event.key, None if event.change == Change.DELETED else event.object, 1)
        before = self._store.version
        table = self._store.of(PodDisruptionBudget)
        for key, count in self._allowed.items():
            budget = table.get(key)
            if budget is not None and budget.status.disruptions_allowed != max(count, 0):
                self._store.write(replace(budget, status=replace(budget.status, disruptions_allowed=max(count, 0))))
        return self._store.version != before

    def _note(self, key: str, pod: Pod | None, weight: int) -> None:
        """The pod is as it is now; readiness won or lost counts with the weight."""
        was = self._ready.pop(key, [])
        now = self._budgets(pod) if pod is not None and is_healthy(pod) else []
        if now:
            self._ready[key] = now
        for budget in was:
            self._allowed[budget] -= weight
        for budget in now:
            self._allowed[budget] += weight

    def _budgets(self, pod: Pod) -> list[str]:
        meta = pod.metadata
        at = (meta.namespace, tuple(sorted(meta.labels.items())))
        found = self._covering.get(at)
        if found is None:
            table = self._store.of(PodDisruptionBudget)
            found = self._covering[at] = [
                key
                for key in self._allowed
                if key in table
                and table[key].metadata.namespace == meta.namespace
                and matches(table[key].spec.selector, meta.labels)
            ]
        return found
