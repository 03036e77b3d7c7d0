"""Keeps victims within PodDisruptionBudgets, by Volcano's count; has an effect only with `compatibility: volcano`.

muster's own rules always respect budgets, whether or not this plugin is configured (`engine.evictions.budgets`).
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Opinion, Plugin, Preemptable, Reclaimable
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.evictions.budgets import ledger_of
from muster.model.disruption_budgets import DisruptionLedger


class Pdb(Plugin, Preemptable, Reclaimable):
    name = "pdb"
    opinion = Opinion.NONE

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._ledger = DisruptionLedger({}, lambda namespace: ())
        self._empty: set[str] = set()  # budgets with an empty selector

    def open(self, session: Session) -> None:
        self._ledger = ledger_of(session.state)
        selectors = {key: budget.spec.selector for key, budget in self._ledger.budgets.items()}
        self._empty = {key for key, s in selectors.items() if s and not (s.match_labels or s.match_expressions)}

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        # Volcano: each call starts from the status of the budgets, and a refused candidate uses up the budget, too.
        left: dict[str, int] = {}
        answers = []
        for task in candidates:
            # Volcano: a pod without labels is never a victim.
            allowed = bool(task.labels)
            for key in self._covering(task) if allowed else ():
                left[key] = left.get(key, self._ledger.count(key).allowed) - 1
                if left[key] < 0:
                    allowed = False
                    break
            answers.append(allowed)
        return answers

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)

    def _covering(self, task: Task) -> list[str]:
        """Volcano: a budget with an empty selector covers nothing, and disruptedPods are not counted again."""
        budgets, empty = self._ledger.budgets, self._empty
        keys = self._ledger.covering(task.pod)
        return [key for key in keys if key not in empty and task.name not in budgets[key].status.disrupted_pods]
