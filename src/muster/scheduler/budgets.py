"""Which pods PodDisruptionBudgets keep where they are: nobody's victims, whether or not `pdb` is configured.

A large cluster has tens of thousands of pods under hundreds of budgets, so only what changed since the last cycle is
looked at: a budget is found by a label that it asks for, and the pods that it covers are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.core.jobs import Task
from muster.engine.core.state import State
from muster.model.core import PodDisruptionBudget
from muster.model.selectors import matches


class Budgets:
    def __init__(self) -> None:
        self._known: dict[str, PodDisruptionBudget] = {}
        self._by_label: dict[tuple[str, str, str], list[str]] = {}  # namespace, label and value asked for → budgets
        self._unlabelled: dict[str, list[str]] = {}  # namespace → those that ask for no value of a label
        self._over: dict[str, list[str]] = {}  # pod → the budgets that cover it
        self._under: dict[str, dict[str, None]] = {}  # budget → the pods that it covers
        self._marked: dict[str, Task] = {}

    def covering(self, task: Task) -> list[tuple[str, PodDisruptionBudget]]:
        """The budgets that cover the pod, as of the last `mark`."""
        space = task.namespace
        asked = (self._by_label.get((space, label, value), ()) for label, value in task.labels.items())
        found = [key for some in (*asked, self._unlabelled.get(space, ())) for key in some]
        return [(key, self._known[key]) for key in found if matches(self._known[key].spec.selector, task.labels)]

    def mark(self, state: State) -> None:
        """Mark the pods that may not go now, and take the mark off those that may again."""
        spaces, look = self._read(state)
        look.update(dict.fromkeys(state.tasks if state.changed_pods is None else state.changed_pods))
        if spaces:
            look.update((key, None) for key, task in state.tasks.items() if task.namespace in spaces)
        for key in look:
            pod = state.tasks.get(key)
            if pod is None:
                self._cover(key, ())
                self._marked.pop(key, None)
            else:
                self._cover(key, [budget for budget, _ in self.covering(pod)])
                self._judge(state, pod)
        state.changed_pods = {}  # what was unmarked has been looked at

    def _read(self, state: State) -> tuple[set[str], dict[str, None]]:
        """Namespaces whose budgets cover other pods than before; pods whose budgets allow more or less."""
        table = {k: b for k, b in state.objects["PodDisruptionBudget"].items() if isinstance(b, PodDisruptionBudget)}
        spaces = {key.partition("/")[0] for key in self._known.keys() - table.keys()}
        look: dict[str, None] = {}
        for key, budget in table.items():
            before = self._known.get(key)
            if before is None or before.spec.selector != budget.spec.selector:
                spaces.add(key.partition("/")[0])
            elif before.status.disruptions_allowed != budget.status.disruptions_allowed:
                look.update(self._under.get(key, {}))
        self._known = table
        if spaces:
            self._by_label, self._unlabelled = {}, {}
            for key, budget in table.items():
                space = key.partition("/")[0]
                selector = budget.spec.selector
                if selector is not None and selector.match_labels:
                    label, value = next(iter(selector.match_labels.items()))
                    self._by_label.setdefault((space, label, value), []).append(key)
                else:
                    self._unlabelled.setdefault(space, []).append(key)
        return spaces, look

    def _cover(self, pod: str, budgets: Iterable[str]) -> None:
        for key in self._over.pop(pod, ()):
            self._under[key].pop(pod)
        for key in budgets:
            self._over.setdefault(pod, []).append(key)
            self._under.setdefault(key, {})[pod] = None

    def _judge(self, state: State, task: Task) -> None:
        over = [self._known[key] for key in self._over.get(task.key, ())]
        # Kubernetes: the Eviction API cannot serve a pod under more than one budget.
        kept = len(over) > 1 or any(not budget.status.disruptions_allowed for budget in over)
        marked = self._marked.get(task.key) is task
        if kept and task.pod.spec.node_name:
            if not marked:
                self._marked[task.key] = task
                task.preemptable = False
                if task.job is not None:
                    task.job.mark_changed()
        elif self._marked.pop(task.key, None) is not None and marked:
            state.upsert("Pod", task.key, task.pod)  # read anew: as its annotations say
