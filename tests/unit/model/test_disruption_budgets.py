"""Every part that counts PodDisruptionBudgets gets the same result for the same objects."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, pod, queue, state_of, typed
from builders.queued_jobs import made, opened, session, tasks
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.state import State
from muster.engine.evictions.budgets import Budgets, ledger_of
from muster.groupctl.controllers.eviction_order import eviction_blocker
from muster.groupctl.controllers.object_cache import ObjectCache
from muster.model.core import Node, Pod, PodDisruptionBudget
from muster.model.disruption_budgets import BudgetIndex, DisruptionLedger, count
from muster.model.meta import LabelSelector, LabelSelectorRequirement, Object
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from muster.plugins.pdb import Pdb
from muster.scheduler.budgets import BudgetProtection, over_budget
from muster.sim.summary import Breaches

WEB = {"app": "web"}
NOT_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def budget(name: str = "b", status: dict[str, Any] | None = None, generation: int = 0, **spec: Any) -> Object:
    meta = {"name": name, "namespace": "default", "generation": generation}
    spec.setdefault("selector", {"matchLabels": WEB})
    return made("policy/v1", "PodDisruptionBudget", meta, spec=spec, status=status or {})


def web(name: str, **status: Any) -> Object:
    """A pod of the application; without a status it is running and ready."""
    one = typed(pod(name, "a", "n1", labels=WEB))
    if not status:
        return one
    meta = {"name": name, "namespace": "default", "labels": WEB, "annotations": one.metadata.annotations}
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if status.pop("terminating", False) else {}
    return made("v1", "Pod", meta, spec={"nodeName": "n1", "containers": []}, status={"phase": "Running", **status})


def cluster(*objects: Object) -> State:
    ready = made("v1", "Node", {"name": "n1"}, status={
        "allocatable": {"cpu": 10, "memory": "10Gi", "pods": 110}, "conditions": [{"type": "Ready", "status": "True"}],
    })  # fmt: skip
    return state_of(ready, queue("q"), group("a", "q", phase="Inqueue"), pod("new", "a"), *objects)


def by_engine(state: State, *names: str) -> bool:
    live = session(state, "gang")
    return live.shared(Budgets).refuses(tasks(state, *names)) is None


def by_scheduler(state: State, *names: str) -> bool:
    """Neither protected before the cycle, nor removed from the plan afterwards."""
    plan = Plan(evictions=[Eviction(f"default/{name}", "n1", "default/new", "preempt") for name in names])
    fits = not over_budget(plan, state)
    if len(names) == 1:
        BudgetProtection().mark(state)
        assert state.tasks[f"default/{names[0]}"].preemptable == fits
    return fits


def by_controllers(state: State, name: str) -> bool:
    state.refresh()
    budgets = state.objects["PodDisruptionBudget"].values()
    found = [*state.nodes.objects, *(task.pod for task in state.tasks.values()), *budgets]
    kinds = (Node, Pod, PodDisruptionBudget, PersistentVolume, PersistentVolumeClaim)
    store = MemoryStore(VirtualClock(0.0), found)
    why = eviction_blocker(state.tasks[f"default/{name}"].pod, ObjectCache(store, kinds))
    return why is None or "PodDisruptionBudget" not in why


def by_simulator(state: State, *names: str) -> bool:
    breaches = Breaches(state)
    breaches.note([f"default/{name}" for name in names])
    return not breaches.warnings()


# Budgets over four pods that are running and ready, and how many of them may be evicted.
COUNTED = {
    "a number that must stay": (budget(minAvailable=3), 1),
    "more than there are": (budget(minAvailable=9), 0),
    "a percentage that must stay, rounded up": (budget(minAvailable="30%"), 2),
    "a number that may go": (budget(maxUnavailable=3), 3),
    "a percentage that may go, rounded up": (budget(maxUnavailable="26%"), 2),
    "all": (budget(maxUnavailable="100%"), 4),
    "no number": (budget(), 0),
    "no selector": (budget(selector=None, minAvailable=9), 4),
    "a status": (budget(status={"disruptionsAllowed": 2}, minAvailable=4), 2),
    "a status below zero": (budget(status={"disruptionsAllowed": -1}, maxUnavailable=3), 0),
    "a status that the API server has decremented": (
        budget(status={"disruptionsAllowed": 0, "disruptedPods": {"p9": "2026-01-01T00:00:00Z"}}, maxUnavailable=1), 0
    ),
    "a status of an older spec": (
        budget(status={"disruptionsAllowed": 2, "observedGeneration": 1}, generation=2, minAvailable=1), 0
    ),
    "a status of this spec": (
        budget(status={"disruptionsAllowed": 2, "observedGeneration": 2}, generation=2, minAvailable=1), 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_all_callers_allow_the_same_number_of_evictions(case: str) -> None:
    one, allowed = COUNTED[case]
    names = [f"p{i}" for i in range(4)]

    def state() -> State:
        return cluster(one, *(web(name) for name in names))

    for number in range(1, 5):
        expected = number <= allowed
        for answer in (by_engine, by_scheduler, by_simulator):
            assert answer(state(), *names[:number]) == expected, answer.__name__
    assert by_controllers(state(), "p0") == (allowed > 0)
    _, plugin = opened(Pdb, here := state())
    assert sum(plugin.preemptable(here.tasks["default/new"], tasks(here, *names))) == allowed


HEALTHY = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}
SHORT = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2}
# A budget, the state of one pod beside two that are ready, and whether the Eviction API would evict that pod.
PODS: dict[str, tuple[list[Object], dict[str, Any], bool]] = {
    "ready": ([budget(status=HEALTHY)], {}, False),
    "not ready, and the budget is met without it": ([budget(status=HEALTHY)], NOT_READY, True),
    "not ready, and the budget is not met": ([budget(status=SHORT)], NOT_READY, False),
    "not ready, and the policy always allows it": (
        [budget(status=SHORT, unhealthyPodEvictionPolicy="AlwaysAllow")], NOT_READY, True
    ),
    "not ready, no status, and the budget is met": ([budget(minAvailable=2)], NOT_READY, True),
    "not ready, no status, and the budget is not met": ([budget(minAvailable=3)], NOT_READY, False),
    "never ran": ([budget(status=SHORT)], {"phase": "Pending"}, True),
    "counted as disrupted already": (
        [budget(status={"disruptionsAllowed": 0, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}})], {}, True
    ),
    "under two budgets": ([budget(maxUnavailable=2), budget("c", maxUnavailable=2)], {}, False),
    "under two budgets, never ran": ([budget(), budget("c")], {"phase": "Pending"}, True),
}  # fmt: skip


@pytest.mark.parametrize("case", PODS)
def test_all_callers_agree_on_one_pod(case: str) -> None:
    budgets, status, expected = PODS[case]
    for answer in (by_engine, by_scheduler, by_controllers):
        state = cluster(*budgets, web("q0"), web("q1"), web("p", **status))
        assert answer(state, "p") == expected, answer.__name__


def test_terminating_and_finished_pods_do_not_count_as_healthy() -> None:
    others = web("p1", terminating=True), web("p2", phase="Failed"), web("p3", **NOT_READY)
    state = cluster(budget(minAvailable=1), web("p0"), *others)
    assert ledger_of(state).count("default/b") == (0, 1, 1)
    assert not by_engine(state, "p0") and not by_controllers(state, "p0")


def test_disrupted_pods_do_not_count_as_healthy() -> None:
    one = budget(status={"disruptedPods": {"p0": "2026-01-01T00:00:00Z"}}, minAvailable=1)
    assert isinstance(one, PodDisruptionBudget)
    found = [web("p0"), web("p1")]
    assert count(one, [p for p in found if isinstance(p, Pod)]) == (0, 1, 1)


def test_the_index_finds_budgets_by_namespace_and_selector() -> None:
    tier = LabelSelector(match_expressions=[LabelSelectorRequirement(key="tier", operator="Exists")])
    index = BudgetIndex({
        "default/app": LabelSelector(match_labels=WEB), "default/tier": tier, "default/all": LabelSelector(),
        "default/none": None,
        "e/app": LabelSelector(match_labels=WEB),
    })  # fmt: skip
    assert index.covering("default", WEB) == ["default/all", "default/app"]
    assert index.covering("default", {"tier": "x"}) == ["default/all", "default/tier"]
    assert index.covering("e", WEB) == ["e/app"] and index.covering("f", WEB) == []


def test_the_pods_of_a_namespace_are_looked_through_once() -> None:
    budgets = {f"default/b{i}": budget(f"b{i}", minAvailable=1) for i in range(3)}
    asked: list[str] = []

    def pods(namespace: str) -> list[Pod]:
        asked.append(namespace)
        return [p for p in (web("p0"), web("p1")) if isinstance(p, Pod)]

    ledger = DisruptionLedger({k: b for k, b in budgets.items() if isinstance(b, PodDisruptionBudget)}, pods)
    assert [ledger.count(key) for key in budgets] == [(1, 2, 1)] * 3
    assert asked == ["default"]
