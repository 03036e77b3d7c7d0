"""PodDisruptionBudgets: what may still be evicted in a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import ALLOWED_DISRUPTIONS, budget, made, session, tasks
from muster.engine.core.session import Session
from muster.engine.evictions.budgets import Budgets

WEB = {"app": "web"}


def opened(*budgets: Any, running: int = 3, failed: int = 0) -> tuple[Session, Budgets]:
    pods = [pod(f"p{i}", "a", "n1", labels=WEB) for i in range(running)]
    ended = [pod(f"f{i}", "a", "n1", labels=WEB, phase="Failed") for i in range(failed)]
    live = session(
        state_of(node(cpu=10), queue("q"), group("a", "q", phase="Inqueue"), *pods, *ended, *budgets), "gang"
    )
    return live, live.shared(Budgets)


def refuses(live: Session, *names: str) -> str:
    reason = live.shared(Budgets).refuses(tasks(live.state, *names))
    return reason.message() if reason is not None else ""


def test_a_set_of_victims_is_counted_together() -> None:
    live, _ = opened(budget("b", WEB, allowed=2))
    assert refuses(live, "p0", "p1") == ""
    assert "PodDisruptionBudget default/b allows 2 more disruptions" in refuses(live, "p0", "p1", "p2")


def test_evictions_of_the_cycle_count_until_they_are_taken_back() -> None:
    live, budgets = opened(budget("b", WEB, allowed=1))
    statement = live.statement()
    statement.evict(live.state.tasks["default/p0"], None, "preempt")
    assert budgets.left("default/b") == 0
    assert "allows 0 more disruptions" in refuses(live, "p1")
    statement.discard()
    assert budgets.left("default/b") == 1 and refuses(live, "p1") == ""


def test_pods_of_no_budget_may_go() -> None:
    assert refuses(opened(budget("b", {"app": "other"}, allowed=0))[0], "p0", "p1", "p2") == ""
    assert refuses(opened()[0], "p0", "p1", "p2") == ""


def test_a_budget_with_an_empty_selector_covers_the_namespace() -> None:
    assert "PodDisruptionBudget default/b" in refuses(opened(budget("b", {}, allowed=0))[0], "p0")


def test_a_pod_under_two_budgets_stays_as_the_eviction_api_would_refuse_it() -> None:
    live, _ = opened(budget("b", WEB, allowed=3), budget("c", WEB, allowed=3))
    assert "more than one PodDisruptionBudget" in refuses(live, "p0")


def test_a_pod_whose_disruption_is_counted_already_costs_nothing_more() -> None:
    meta = {"name": "b", "namespace": "default"}
    status = {"disruptionsAllowed": 0, "disruptedPods": {"p0": "2026-01-01T00:00:00Z"}}
    held = made("policy/v1", "PodDisruptionBudget", meta, spec={"selector": {"matchLabels": WEB}}, status=status)
    live, budgets = opened(held)
    assert refuses(live, "p0") == "" and refuses(live, "p0", "p1") != ""
    live.statement().evict(live.state.tasks["default/p0"], None, "preempt")
    assert budgets.left("default/b") == 0


@pytest.mark.parametrize(("spec", "allowed"), ALLOWED_DISRUPTIONS)
def test_a_budget_without_status_is_counted_as_its_controller_would(spec: dict[str, Any], allowed: int) -> None:
    _, budgets = opened(budget("b", WEB, **spec), failed=2)
    assert budgets.left("default/b") == allowed
