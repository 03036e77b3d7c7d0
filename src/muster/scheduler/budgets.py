"""PodDisruptionBudgets on a live cluster: they hold whether or not `pdb` is configured, as in the Eviction API.

Pods that may not be evicted now are marked before a cycle, so that no claim chooses them; claims that are over a budget
are removed from the plan. A large cluster has tens of thousands of pods under hundreds of budgets, so only what changed
since the last cycle is marked again.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.core.jobs import Task
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.engine.evictions.budgets import budgets_of, ledger_of
from muster.model.core import PodDisruptionBudget
from muster.model.disruption_budgets import BudgetCount, BudgetIndex, count, is_exempt, uses_disruption
from muster.scheduler.commits import by_claimer

_READER = "budgets"  # of the state's changed pods


class BudgetProtection:
    """Marks the pods that budgets protect as not preemptable."""

    def __init__(self) -> None:
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._index = BudgetIndex({})
        self._budgets_of: dict[str, list[str]] = {}  # pod → the budgets that cover it
        self._pods_of: dict[str, dict[str, None]] = {}  # budget → the pods that it covers
        self._counts: dict[str, BudgetCount] = {}  # of this cycle
        self._marked: set[str] = set()

    def mark(self, state: State) -> None:
        """Marks the pods that may not be evicted now, and unmarks the others."""
        namespaces, changed = self._update(state)
        if not namespaces and not self._budgets:
            state.changed_pods[_READER] = {}  # no budget, now or before
            return
        changed.update(dict.fromkeys(state.changed_pods.get(_READER, state.tasks)))
        if namespaces:
            changed.update((key, None) for key, task in state.tasks.items() if task.namespace in namespaces)
        for key in changed:
            task = state.tasks.get(key)
            self._cover(key, () if task is None else self._index.covering(task.namespace, task.labels))
            if task is None:
                self._marked.discard(key)
        self._counts = {}
        for key in self._without_status():
            changed.update(self._pods_of.get(key, {}))
        for key in changed:
            if key in state.tasks:
                self._mark(state, state.tasks[key])
        state.changed_pods[_READER] = {}  # what was unmarked has been marked again

    def _update(self, state: State) -> tuple[set[str], dict[str, None]]:
        """Returns the namespaces whose budgets cover other pods than before, and the pods of changed budgets."""
        budgets = budgets_of(state)
        namespaces = {key.partition("/")[0] for key in self._budgets.keys() - budgets.keys()}
        changed: dict[str, None] = {}
        for key, budget in budgets.items():
            before = self._budgets.get(key)
            if before is None or before.spec.selector != budget.spec.selector:
                namespaces.add(key.partition("/")[0])
            elif before is not budget and _content(before) != _content(budget):
                changed.update(self._pods_of.get(key, {}))
        self._budgets = budgets
        if namespaces:
            self._index = BudgetIndex({key: budget.spec.selector for key, budget in budgets.items()})
        return namespaces, changed

    def _without_status(self) -> Iterable[str]:
        """Returns the budgets whose count depends on the state of every pod that they cover."""
        return (key for key, budget in self._budgets.items() if budget.status.disruptions_allowed is None)

    def _cover(self, pod: str, budgets: Iterable[str]) -> None:
        for key in self._budgets_of.pop(pod, ()):
            self._pods_of[key].pop(pod)
        for key in budgets:
            self._budgets_of.setdefault(pod, []).append(key)
            self._pods_of.setdefault(key, {})[pod] = None

    def _mark(self, state: State, task: Task) -> None:
        if task.pod.spec.node_name and self._is_protected(state, task):
            if task.preemptable:  # also if it was read again since it was marked
                self._marked.add(task.key)
                task.preemptable = False
                if task.job is not None:
                    task.job.mark_changed()
        elif task.key in self._marked:
            self._marked.discard(task.key)
            state.upsert("Pod", task.key, task.pod)  # read again, with its annotations

    def _is_protected(self, state: State, task: Task) -> bool:
        keys = self._budgets_of.get(task.key, ())
        if not keys or is_exempt(task.pod):
            return False
        if len(keys) > 1:
            return True  # Kubernetes: the Eviction API cannot evict a pod under more than one budget
        budget, counted = self._budgets[keys[0]], self._counts.get(keys[0])
        if counted is None:
            pods = (state.tasks[key].pod for key in self._pods_of[keys[0]])
            counted = self._counts[keys[0]] = count(budget, pods)
        return not counted.allowed and uses_disruption(budget, counted, task.pod)


def _content(budget: PodDisruptionBudget) -> tuple[object, ...]:
    return budget.spec, budget.status, budget.metadata.generation


def over_budget(plan: Plan, state: State) -> dict[str, str]:
    """Returns the claimers whose evictions a budget refuses, after those of the claimers before them, and why."""
    refused: dict[str, str] = {}
    if not plan.evictions:
        return refused
    ledger = ledger_of(state)
    for claimer, evictions in by_claimer(plan, state).items():
        pods = [state.tasks[eviction.pod].pod for eviction in evictions]
        blocked = ledger.blocked(pods)
        if blocked is None:
            for pod in pods:
                ledger.add(pod)
            continue
        # A user must not learn the names of budgets and pods in another namespace.
        near = blocked.pod.partition("/")[0] == claimer.partition("/")[0]
        if blocked.budget:
            name = f"budget {blocked.budget}" if near else "a budget of another namespace"
            refused[claimer] = f"{name} allows {blocked.left} more disruptions"
        else:
            refused[claimer] = f"{blocked.pod if near else 'a pod of another namespace'} is under more than one budget"
    return refused
