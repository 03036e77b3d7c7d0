"""PodDisruptionBudgets as the oracle counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from muster.model.selectors import matches
from oracles.eviction_model import Member, World


def covering(world: World, member: Member) -> list[str]:
    """The budgets of a pod. A budget without a selector covers nothing."""
    namespace = member.key.partition("/")[0]
    return [
        key for key, budget in world.budgets.items()
        if key.partition("/")[0] == namespace and budget.spec.selector is not None
        and matches(budget.spec.selector, dict(member.labels))
    ]  # fmt: skip


def allowances(world: World, first: World, *, strict: bool = False) -> dict[str, int]:
    """Budget → how many of its pods may be disrupted now. `strict`: terminating pods are expected, too.

    A status that the input gives stands for the pods of the input; from there on it follows their health.
    """
    healthy, expected = _counts(world, ("placed", "waiting", "terminating") if strict else ("placed", "waiting"))
    at_first, _ = _counts(first, ())
    found = {}
    for key in world.budgets:
        given = first.budgets[key].status.disruptions_allowed
        if given is not None:
            found[key] = max(given + healthy[key] - at_first[key], 0)
        else:
            found[key] = max(healthy[key] - _wanted(world.budgets[key].spec, expected[key]), 0)
    return found


def uses(world: World, evicted: Iterable[Member]) -> Counter[str]:
    """Budget → how many healthy pods of it are among the evicted ones."""
    return Counter(budget for member in evicted if member.healthy for budget in covering(world, member))


def _counts(world: World, states: Collection[str]) -> tuple[Counter[str], Counter[str]]:
    healthy: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    for member in world.members.values():
        for budget in covering(world, member):
            healthy[budget] += member.healthy
            expected[budget] += member.state in states
    return healthy, expected


def _wanted(spec: Any, expected: int) -> int:
    if spec.max_unavailable is not None:
        return expected - int(spec.max_unavailable)
    return int(spec.min_available) if spec.min_available is not None else expected
