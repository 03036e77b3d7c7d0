"""PodDisruptionBudgets in the plan checker: what a plan evicts is at most what each budget allows."""

from __future__ import annotations

from collections import Counter

import msgspec

from muster.engine.core.plan import Plan
from muster.model.core import Pod, PodDisruptionBudget
from muster.model.selectors import matches
from oracles.plan_end import End


def check_budgets(end: End, plan: Plan) -> None:
    """A budget with a status allows what it says, one without what its spec says of the pods it selects."""
    if not plan.evictions or not end.budgets:
        return
    alike: dict[bytes, list[str]] = {}  # pods with the same namespace and labels
    for name, pod in end.pods.items():
        if pod.status.phase not in ("Succeeded", "Failed"):
            alike.setdefault(msgspec.json.encode((pod.metadata.namespace, pod.metadata.labels)), []).append(name)
    gone = {eviction.pod for eviction in plan.evictions}
    for name, budget in end.budgets.items():
        covered = [pod for pods in alike.values() if _covers(budget, end.pods[pods[0]]) for pod in pods]
        health = Counter(_is_healthy(end.pods[pod]) for pod in covered)
        given = budget.status.disruptions_allowed
        expected = sum(end.pods[pod].metadata.deletion_timestamp is None for pod in covered)
        allowed = given if given is not None else max(health[True] - _needed(budget, expected), 0)
        evicted = sum(pod in gone and _is_healthy(end.pods[pod]) for pod in covered)
        assert evicted <= allowed, f"{evicted} pods of the budget {name} are evicted, of {allowed}"


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    same = budget.metadata.namespace == pod.metadata.namespace
    return same and matches(budget.spec.selector, pod.metadata.labels)


def _is_healthy(pod: Pod) -> bool:
    ready = all(c.status == "True" for c in pod.status.conditions if c.type == "Ready")
    return pod.status.phase == "Running" and ready and pod.metadata.deletion_timestamp is None


def _needed(budget: PodDisruptionBudget, expected: int) -> int:
    spec = budget.spec
    if spec.max_unavailable is not None:
        return expected - _number(spec.max_unavailable, expected)
    return _number(spec.min_available, expected) if spec.min_available is not None else expected


def _number(value: int | str, whole: int) -> int:
    """A number, or a part of the whole; Kubernetes rounds parts up."""
    text = str(value)
    return -(-int(text[:-1]) * whole // 100) if text.endswith("%") else int(text)
