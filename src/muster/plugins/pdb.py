"""Keeps victims within PodDisruptionBudgets: of each budget's pods no more than may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.config.types import Arguments, PluginOption
from muster.engine.hooks import Plugin, Preemptable, Reclaimable
from muster.engine.jobs import Status, Task
from muster.engine.session import Session
from muster.model.core import PodDisruptionBudget
from muster.model.selectors import matches


class Pdb(Plugin, Preemptable, Reclaimable):
    name = "pdb"

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
    """Ready; a running pod that says nothing of its readiness is taken to be."""
    ready = [c.status == "True" for c in task.pod.status.conditions if c.type == "Ready"]
    return task.status == Status.RUNNING and all(ready)
