"""pdb: victims within disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import ALLOWED_DISRUPTIONS, budget, opened, task, tasks
from muster.plugins.pdb import Pdb

WEB = {"app": "web"}


def answers(*budgets: Any, labels: dict[str, str] = WEB, running: int = 3, failed: int = 0) -> list[bool]:
    pods = [pod(f"p{i}", "a", "n1", labels=labels) for i in range(running)]
    ended = [pod(f"f{i}", "a", "n1", labels=labels, phase="Failed") for i in range(failed)]
    state = state_of(
        node(cpu=10),
        queue("q"),
        group("a", "q", phase="Inqueue"),
        pod("new", "a"),
        *pods,
        *ended,
        *budgets,
    )
    _, plugin = opened(Pdb, state)
    victims = tasks(state, *(f"p{i}" for i in range(running)))
    found = plugin.preemptable(task(state, "new"), victims)
    assert plugin.reclaimable(task(state, "new"), victims) == found
    return found


def test_each_victim_uses_up_one() -> None:
    assert answers(budget("b", WEB, allowed=1)) == [True, False, False]


def test_pods_of_no_budget_may_go() -> None:
    assert answers(budget("b", {"app": "other"}, allowed=0)) == [True, True, True]
    assert answers() == [True, True, True]


def test_a_pod_without_labels_is_never_a_victim() -> None:
    assert answers(labels={}) == [False, False, False]


def test_every_budget_that_covers_a_pod_must_allow_it() -> None:
    assert answers(budget("b", WEB, allowed=2), budget("c", WEB, allowed=1)) == [True, False, False]


def test_a_budget_without_a_selector_covers_nothing() -> None:
    assert answers(budget("b", {}, allowed=0)) == [True, True, True]


@pytest.mark.parametrize(("spec", "allowed"), ALLOWED_DISRUPTIONS)
def test_a_budget_that_says_nothing_is_counted_as_its_controller_would(spec: dict[str, Any], allowed: int) -> None:
    assert answers(budget("b", WEB, **spec), failed=2).count(True) == allowed
