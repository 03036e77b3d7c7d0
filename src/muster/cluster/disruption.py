"""The disruption controller of the in-memory cluster: keeps the status of PodDisruptionBudgets up to date.

A status that the input gives is correct for the pods of the input. From there on every covered pod that is no longer
healthy takes one disruption away, and every pod that becomes healthy adds one, as Kubernetes' controller would count.
Budgets without a status get none: `model.disruption_budgets` counts their pods.
"""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.model.core import Pod, PodDisruptionBudget
from muster.model.disruption_budgets import BudgetIndex, is_counted_healthy
from muster.store import Change


class DisruptionController:
    """Writes `status.disruptionsAllowed` and `status.currentHealthy`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._watch = store.watch(str(store.version), (Pod,))
        budgets = {k: b for k, b in store.of(PodDisruptionBudget).items() if b.status.disruptions_allowed is not None}
        self._allowed = {key: budget.status.disruptions_allowed or 0 for key, budget in budgets.items()}  # may be < 0
        self._index = BudgetIndex({key: budget.spec.selector for key, budget in budgets.items()})
        self._budgets = budgets
        self._healthy: dict[str, list[str]] = {}  # healthy pod → its budgets
        for key, pod in store.of(Pod).items() if budgets else ():
            self._update(key, pod, 0)

    def run(self) -> bool:
        """Writes the statuses that changed; returns whether there were any."""
        events = self._watch.take()
        if not self._allowed:
            return False
        before_counts = dict(self._allowed)
        for event in events:
            if isinstance(event.object, Pod):
                self._update(event.key, None if event.change == Change.DELETED else event.object, 1)
        before = self._store.version
        table = self._store.of(PodDisruptionBudget)
        for key, count in self._allowed.items():
            budget = table.get(key)
            if budget is None or count == before_counts[key]:
                continue
            status = replace(budget.status, disruptions_allowed=max(count, 0))
            if status.current_healthy is not None:
                status = replace(status, current_healthy=max(status.current_healthy + count - before_counts[key], 0))
            if status != budget.status:
                self._store.write(replace(budget, status=status))
        return self._store.version != before

    def _update(self, key: str, pod: Pod | None, weight: int) -> None:
        """Applies the pod's current state; a change of its health counts with the weight."""
        was = self._healthy.pop(key, [])
        now: list[str] = []
        if pod is not None:
            covering = self._index.covering(pod.metadata.namespace or "default", pod.metadata.labels)
            now = [budget for budget in covering if is_counted_healthy(self._budgets[budget], pod)]
        if now:
            self._healthy[key] = now
        for budget in was:
            self._allowed[budget] -= weight
        for budget in now:
            self._allowed[budget] += weight
