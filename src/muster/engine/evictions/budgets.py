"""PodDisruptionBudgets: how many more pods of each budget may be evicted in this cycle.

A budget's status says how many; where there is no status, the number that Kubernetes' disruption controller would
write. Evictions of this cycle are counted off as they are made, and given back if they are undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from muster.engine.core.hooks import Ledger, Reason
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.statement import Move
from muster.model.core import PodDisruptionBudget
from muster.model.pod_states import is_healthy
from muster.model.selectors import matches

if TYPE_CHECKING:
    from muster.engine.core.session import Session


class Budgets(Ledger):
    """The budgets of one cycle. Nothing is computed before the first question."""

    def __init__(self, session: Session) -> None:
        self._tasks = session.state.tasks
        self._by_space: dict[str, list[tuple[str, PodDisruptionBudget]]] = {}
        for key, budget in sorted(session.state.objects["PodDisruptionBudget"].items()):
            if isinstance(budget, PodDisruptionBudget) and budget.spec.selector is not None:
                self._by_space.setdefault(key.partition("/")[0], []).append((key, budget))
        self._allowed: dict[str, int] = {}  # as the cycle found it
        self._used: dict[str, int] = {}
        self._covering: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[str, PodDisruptionBudget]]] = {}

    def covering(self, task: Task) -> list[tuple[str, PodDisruptionBudget]]:
        """The budgets that the pod counts for."""
        here = self._by_space.get(task.namespace)
        if not here:
            return []
        labels = task.labels
        same = (task.namespace, tuple(sorted(labels.items())))
        found = self._covering.get(same)
        if found is None:
            found = self._covering[same] = [pair for pair in here if matches(pair[1].spec.selector, labels)]
        return found

    def refuses(self, victims: Sequence[Task]) -> Reason | None:
        """Why these may not go, after what has gone in this cycle."""
        if not self._by_space:
            return None
        asked: dict[str, int] = {}
        for task in victims:
            over = self.covering(task)
            if len(over) > 1:
                # Kubernetes: the Eviction API cannot serve a pod under more than one budget.
                text = f"{task.key} is under more than one PodDisruptionBudget"
                return Reason("budget", text, resolvable=False)
            for key, budget in over:
                if task.name not in budget.status.disrupted_pods:
                    asked[key] = asked.get(key, 0) + 1
        for key, count in asked.items():
            if count > self.left(key):
                return Reason("budget", f"budget {key} allows {max(self.left(key), 0)} more disruptions")
        return None

    def left(self, key: str) -> int:
        found = self._allowed.get(key)
        if found is None:
            space = key.partition("/")[0]
            budget = next(budget for name, budget in self._by_space[space] if name == key)
            found = self._allowed[key] = disruptions_allowed(budget, space, self._tasks)
        return found - self._used.get(key, 0)

    def allocated(self, move: Move) -> None:
        self._count(move, -1)

    def released(self, move: Move) -> None:
        self._count(move, 1)

    def _count(self, move: Move, sign: int) -> None:
        if move.kind != MoveKind.EVICT or not self._by_space:
            return
        for key, budget in self.covering(move.task):
            if move.task.name not in budget.status.disrupted_pods:
                self._used[key] = self._used.get(key, 0) + sign


def disruptions_allowed(budget: PodDisruptionBudget, namespace: str, tasks: Mapping[str, Task]) -> int:
    """What the budget's status says; where it says nothing, what Kubernetes' controller would write there."""
    if budget.status.disruptions_allowed is not None:
        return budget.status.disruptions_allowed
    ended = (Status.SUCCEEDED, Status.FAILED)
    pods = [
        t for t in tasks.values()
        if t.namespace == namespace and t.status not in ended and matches(budget.spec.selector, t.labels)
    ]  # fmt: skip
    healthy = sum(1 for t in pods if _healthy(t) and t.name not in budget.status.disrupted_pods)
    spec = budget.spec
    if spec.max_unavailable is not None:
        wanted = max(len(pods) - _scaled(spec.max_unavailable, len(pods)), 0)
    elif spec.min_available is not None:
        wanted = _scaled(spec.min_available, len(pods))
    else:
        return 0
    return max(healthy - wanted, 0)


def _scaled(value: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    text = str(value)
    if text.endswith("%") and text[:-1].isdigit():
        return -(-int(text[:-1]) * of // 100)
    return int(text) if text.isdigit() else 0


def _healthy(task: Task) -> bool:
    """Ready and not on its way out, as the cycle found it; a running pod that says nothing of it counts as ready."""
    return is_healthy(task.pod)
