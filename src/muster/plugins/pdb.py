"""Keeps victims within PodDisruptionBudgets, by Volcano's count; has an effect only with `compatibility: volcano`.

By muster's own rules budgets hold always, whether or not this plugin is configured (`engine.budgets`).
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Opinion, Plugin, Preemptable, Reclaimable
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.evictions.budgets import disruptions_allowed
from muster.model.core import PodDisruptionBudget
from muster.model.selectors import matches


class Pdb(Plugin, Preemptable, Reclaimable):
    name = "pdb"
    opinion = Opinion.NONE

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._budgets: dict[str, list[tuple[PodDisruptionBudget, int]]] = {}  # namespace → (budget, allowed)
        self._matching: dict[str, list[int]] = {}  # pod → its namespace's budgets that cover it

    def open(self, session: Session) -> None:
        self._budgets, self._matching = {}, {}
        tasks = session.state.tasks
        for key, budget in sorted(session.state.objects["PodDisruptionBudget"].items()):
            selector = budget.spec.selector if isinstance(budget, PodDisruptionBudget) else None
            # Volcano: a budget with an empty selector covers nothing here.
            if selector is not None and (selector.match_labels or selector.match_expressions):
                assert isinstance(budget, PodDisruptionBudget)
                namespace = key.partition("/")[0]
                allowed = disruptions_allowed(budget, namespace, tasks)
                self._budgets.setdefault(namespace, []).append((budget, allowed))

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        # Volcano: each question starts from the budgets' status, and a candidate that is refused uses one up, too.
        left: dict[tuple[str, int], int] = {}
        answers = []
        for task in candidates:
            # Volcano: a pod without any label is never a victim.
            allowed = bool(task.labels)
            for i in self._covering(task) if allowed else ():
                at = (task.namespace, i)
                left[at] = left.get(at, self._budgets[task.namespace][i][1]) - 1
                if left[at] < 0:
                    allowed = False
                    break
            answers.append(allowed)
        return answers

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)

    def _covering(self, task: Task) -> list[int]:
        found = self._matching.get(task.key)
        if found is None:
            budgets = self._budgets.get(task.namespace, ())
            found = self._matching[task.key] = [
                i
                for i, (budget, _) in enumerate(budgets)
                if matches(budget.spec.selector, task.labels) and task.name not in budget.status.disrupted_pods
            ]
        return found
