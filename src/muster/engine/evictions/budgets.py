"""PodDisruptionBudgets of one cycle: evictions are counted as they are made, and taken back if they are undone.

The rules are in `model.disruption_budgets`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from muster.engine.core.hooks import Ledger, Reason
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.statement import Move
from muster.model.core import Pod, PodDisruptionBudget
from muster.model.disruption_budgets import DisruptionLedger

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.state import State


def ledger_of(state: State) -> DisruptionLedger:
    """Returns the budgets of the state, with no eviction counted yet."""
    return DisruptionLedger(budgets_of(state), pods_of(state.tasks))


def budgets_of(state: State) -> dict[str, PodDisruptionBudget]:
    objects = state.objects["PodDisruptionBudget"]
    return {key: budget for key, budget in objects.items() if isinstance(budget, PodDisruptionBudget)}


def pods_of(tasks: Mapping[str, Task]) -> Callable[[str], Iterable[Pod]]:
    return lambda namespace: (task.pod for task in tasks.values() if task.namespace == namespace)


class Budgets(Ledger):
    """The budgets of one cycle."""

    def __init__(self, session: Session) -> None:
        self._ledger = ledger_of(session.state)

    def refuses(self, victims: Sequence[Task]) -> Reason | None:
        """Returns why these may not be evicted, after the evictions of this cycle."""
        if not self._ledger.budgets:
            return None
        blocked = self._ledger.blocked([task.pod for task in victims])
        if blocked is None:
            return None
        if not blocked.budget:
            return Reason("budget", f"{blocked.pod} is under more than one PodDisruptionBudget", resolvable=False)
        return Reason("budget", lambda _: self._inequality(blocked.budget, blocked.left))

    def _inequality(self, budget: str, left: int) -> str:
        counted = self._ledger.count(budget)
        used = counted.allowed - left
        evicted = f", {used} evicted before" if used > 0 else ""
        figures = f"{counted.healthy} healthy, {counted.desired} required{evicted}"
        return f"PodDisruptionBudget {budget} allows {left} more disruptions: {figures}"

    def left(self, key: str) -> int:
        return self._ledger.left(key)

    def allocated(self, move: Move) -> None:
        self._count(move, -1)

    def released(self, move: Move) -> None:
        self._count(move, 1)

    def _count(self, move: Move, evictions: int) -> None:
        if self._ledger.budgets and move.kind == MoveKind.EVICT:
            self._ledger.add(move.task.pod, evictions)
