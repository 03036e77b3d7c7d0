"""PodDisruptionBudgets: which pods they cover, how many disruptions they allow, and which evictions use one up.

This is the only implementation, for the engine, the scheduler, the simulator, the controllers and the plugin pdb. It
follows Kubernetes' disruption controller (the count) and its Eviction API (which budgets apply, and which evictions
count).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from muster.model.core import PodDisruptionBudget
from muster.model.meta import LabelSelector
from muster.model.meta import key as key_of
from muster.model.pod import Pod
from muster.model.pod_states import is_finished, is_healthy, is_ready, is_terminating
from muster.model.selectors import matches


class BudgetCount(NamedTuple):
    """The figures of a budget's status."""

    allowed: int
    healthy: int
    desired: int


class Blocked(NamedTuple):
    """Why evictions are refused: a budget does not allow that many, or (budget "") a pod is under several budgets."""

    budget: str
    pod: str
    left: int


def count(budget: PodDisruptionBudget, covered: Iterable[Pod]) -> BudgetCount:
    """Returns the figures of the budget's status; without a status, those that Kubernetes' controller would write.

    `covered` are the pods that match the selector; their number is the expected number of pods, which the controller
    takes from their owners.
    """
    status, spec = budget.status, budget.spec
    if status.disruptions_allowed is not None:
        # Kubernetes: the Eviction API refuses while the controller has not seen the newest spec.
        outdated = status.observed_generation < budget.metadata.generation
        allowed = 0 if outdated else max(status.disruptions_allowed, 0)
        return BudgetCount(allowed, status.current_healthy or 0, status.desired_healthy or 0)
    pods = [pod for pod in covered if not is_finished(pod)]
    healthy = sum(is_counted_healthy(budget, pod) for pod in pods)
    if spec.max_unavailable is not None:
        desired = max(len(pods) - _scaled(spec.max_unavailable, len(pods)), 0)
    elif spec.min_available is not None:
        desired = _scaled(spec.min_available, len(pods))
    else:
        return BudgetCount(0, healthy, 0)  # Kubernetes: a budget without a number expects no pods and allows nothing
    return BudgetCount(max(healthy - desired, 0), healthy, desired)


def is_counted_healthy(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Returns whether the pod counts as healthy: ready, not terminating, and not evicted a moment ago."""
    return is_healthy(pod) and pod.metadata.name not in budget.status.disrupted_pods


def is_exempt(pod: Pod) -> bool:
    """Returns whether the Eviction API checks no budget: the pod never ran, has finished, or terminates already."""
    return pod.status.phase != "Running" or is_terminating(pod)


def uses_disruption(budget: PodDisruptionBudget, counted: BudgetCount, pod: Pod) -> bool:
    """Returns whether the eviction of a covered pod uses up one of the budget's disruptions."""
    if is_exempt(pod) or pod.metadata.name in budget.status.disrupted_pods:
        return False
    if is_ready(pod):
        return True
    # Kubernetes: a pod that is not ready may go if the budget is met without it, or if its policy always allows that.
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return False
    return not 0 < counted.desired <= counted.healthy


def _scaled(value: int | str, of: int) -> int:
    """Returns a number, or a percentage rounded up."""
    text = str(value)
    if text.endswith("%") and text[:-1].isdecimal():
        return -(-int(text[:-1]) * of // 100)
    return int(text) if text.isdecimal() else 0


class BudgetIndex:
    """Finds the budgets that cover a pod by its namespace and labels."""

    def __init__(self, selectors: Mapping[str, LabelSelector | None]) -> None:
        self._selectors = selectors
        self._by_label: dict[tuple[str, str, str], list[str]] = {}  # namespace, label and value selected → budgets
        self._others: dict[str, list[str]] = {}  # namespace → budgets that select no value of a label
        for key, selector in sorted(selectors.items()):
            namespace = key.partition("/")[0]
            if selector is not None and selector.match_labels:
                label, value = next(iter(selector.match_labels.items()))
                self._by_label.setdefault((namespace, label, value), []).append(key)
            elif selector is not None:
                self._others.setdefault(namespace, []).append(key)
        self._namespaces = {key.partition("/")[0] for key in selectors}
        self._found: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}

    def covering(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """Returns the budgets that cover a pod. A budget without a selector covers none."""
        if namespace not in self._namespaces:
            return []
        same = (namespace, tuple(sorted(labels.items())))
        found = self._found.get(same)
        if found is None:
            by_label = (self._by_label.get((namespace, label, value), ()) for label, value in labels.items())
            candidates = [key for keys in (*by_label, self._others.get(namespace, ())) for key in keys]
            found = sorted(key for key in candidates if matches(self._selectors[key], labels))
            self._found[same] = found
        return found


class DisruptionLedger:
    """Counts evictions against the budgets as they were at the start; `pods` lists the pods of a namespace.

    Nothing is computed before the first call.
    """

    def __init__(
        self, budgets: Mapping[str, PodDisruptionBudget], pods: Callable[[str], Iterable[Pod]]
    ) -> None:
        self.budgets = budgets
        self._pods = pods
        self._index = BudgetIndex({key: budget.spec.selector for key, budget in budgets.items()})
        self._covered: dict[str, dict[str, list[Pod]]] = {}  # namespace → budget → the pods that it covers
        self._counts: dict[str, BudgetCount] = {}
        self._used: dict[str, int] = {}

    def covering(self, pod: Pod) -> list[str]:
        return self._index.covering(pod.metadata.namespace or "default", pod.metadata.labels)

    def count(self, key: str) -> BudgetCount:
        found = self._counts.get(key)
        if found is None:
            budget = self.budgets[key]
            counted = budget.status.disruptions_allowed is not None
            found = self._counts[key] = count(budget, () if counted else self._covered_by(key))
        return found

    def _covered_by(self, key: str) -> Iterable[Pod]:
        """Returns the pods that a budget covers; those of all budgets of its namespace are found in one pass."""
        namespace = key.partition("/")[0]
        covered = self._covered.get(namespace)
        if covered is None:
            covered = self._covered[namespace] = {}
            for pod in self._pods(namespace):
                for one in self._index.covering(namespace, pod.metadata.labels):
                    covered.setdefault(one, []).append(pod)
        return covered.get(key, ())

    def left(self, key: str) -> int:
        """Returns how many more disruptions the budget allows."""
        return self.count(key).allowed - self._used.get(key, 0)

    def uses(self, pod: Pod) -> list[str]:
        """Returns the budgets of which the pod's eviction uses one disruption."""
        keys = self.covering(pod)
        return [key for key in keys if uses_disruption(self.budgets[key], self.count(key), pod)] if keys else keys

    def blocked(self, pods: Sequence[Pod]) -> Blocked | None:
        """Returns why these evictions, after those that were added, would be refused; None: they are allowed."""
        asked: dict[str, int] = {}
        for pod in pods:
            if len(self.covering(pod)) > 1 and not is_exempt(pod):
                # Kubernetes: the Eviction API cannot evict a pod under more than one budget.
                return Blocked("", key_of(pod), 0)
            for key in self.uses(pod):
                asked[key] = asked.get(key, 0) + 1
                if asked[key] > self.left(key):
                    return Blocked(key, key_of(pod), max(self.left(key), 0))
        return None

    def add(self, pod: Pod, evictions: int = 1) -> None:
        """Counts an eviction; -1 takes it back."""
        for key in self.uses(pod):
            self._used[key] = self._used.get(key, 0) + evictions
