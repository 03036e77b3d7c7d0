"""With and without caches, look-ahead, runs and early outs the engine decides the same, whatever is configured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from muster.actions import cheapest_victims
from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.engine.core.signatures import Signatures
from muster.plugin_checks.shortcuts import with_shortcuts, without_shortcuts
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples


def both(cluster: Cluster, config: Config) -> tuple[Plan, Plan]:
    with with_shortcuts():
        fast = Scheduler(config).cycle(cluster.state(), NOW)
    with without_shortcuts():
        slow = Scheduler(config).cycle(cluster.state(), NOW)
    return fast, slow


def decided(plan: Plan) -> Plan:
    """All but the texts: of equal pods that wait only the first is asked about when each is taken alone.

    So the condition of a group may name another of these pods.
    """
    conditions = {
        key: structs.replace(condition, message=condition.message.partition(" Origin reason is ")[0], pod="", why="")
        for key, condition in plan.conditions.items()
    }
    return structs.replace(plan, reasons={}, warnings=[], conditions=conditions)


@given(clusters(), configurations())
@examples(250)
def test_shortcuts_change_nothing(cluster: Cluster, config: Config) -> None:
    fast, slow = both(cluster, config)
    assert decided(fast) == decided(slow)
    assert fast.reasons.keys() == slow.reasons.keys()


@pytest.mark.parametrize("compatibility", ["", "volcano"])
@given(
    cluster=clusters(crowded=True),
    config=st.one_of(
        # With drf in the first tier, whom the tiers name depends on the claimer.
        configurations(first=("priority", "gang", "conformance", *more), actions=EVICTING) for more in ((), ("drf",))
    ),
)
@examples(150)
def test_shortcuts_change_no_eviction(compatibility: str, cluster: Cluster, config: Config) -> None:
    fast, slow = both(cluster, replace(config, compatibility=compatibility))
    assert decided(fast) == decided(slow)


@given(clusters(crowded=True), configurations(first=("priority", "gang", "conformance"), actions=EVICTING))
@examples(150)
def test_shortcuts_change_no_eviction_where_victims_are_estimated(cluster: Cluster, config: Config) -> None:
    """As on a large cluster: more nodes than are compared exactly, and more than are compared with each other."""
    with patch.multiple(cheapest_victims, _MAX_EXACT_NODES=1, _ESTIMATED=3):
        fast, slow = both(cluster, config)
    assert decided(fast) == decided(slow)


class DescendingNumbers(dict[object, int]):
    """Gives the signatures other numbers, in the opposite order."""

    def setdefault(self, key: object, default: int = 0) -> int:
        return super().setdefault(key, 1_000_000 - default)


def numbered_otherwise(self: Signatures, *of: Any) -> None:
    _INIT(self, *of)
    self._numbers = DescendingNumbers()


_INIT = Signatures.__init__


@given(clusters(), configurations())
@examples(500)
def test_the_numbers_of_signatures_decide_nothing(cluster: Cluster, config: Config) -> None:
    """They depend on which pod was asked about first, which differs with shortcuts and when somebody looks on."""
    plan = Scheduler(config).cycle(cluster.state(), NOW)
    with patch.object(Signatures, "__init__", numbered_otherwise):
        other = Scheduler(config).cycle(cluster.state(), NOW)
    assert other == plan
