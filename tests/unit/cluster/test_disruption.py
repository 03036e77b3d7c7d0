"""Disruption budgets follow the pods they cover."""

from __future__ import annotations

from builders.embedded import bind_all, cluster, selector, template
from builders.manifests import node, pod
from muster.cluster.embedded import EmbeddedCluster
from muster.model.batch import ReplicaSet, ReplicaSetSpec
from muster.model.core import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from muster.model.meta import ObjectMeta


def budget(allowed: int | None) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="keep"),
        spec=PodDisruptionBudgetSpec(min_available=1, selector=selector()),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def allowed(c: EmbeddedCluster) -> int | None:
    return c.store.get(PodDisruptionBudget, "default/keep").status.disruptions_allowed


def test_an_eviction_uses_the_budget_and_a_ready_successor_gives_it_back() -> None:
    spec = ReplicaSetSpec(replicas=2, selector=selector(), template=template())
    running = [pod(f"web-{i}", on="n", phase="Running", labels={"app": "web"}) for i in "ab"]
    c = cluster(node("n"), ReplicaSet(metadata=ObjectMeta(name="web"), spec=spec), budget(1), *running)
    c.step()
    assert allowed(c) == 1
    c.store.evict("default/web-a", by="default/x", rule="preempt")
    c.step()
    assert allowed(c) == 0
    bind_all(c, "n")
    assert allowed(c) == 1


def test_it_never_says_less_than_none() -> None:
    running = [pod(f"web-{i}", on="n", phase="Running", labels={"app": "web"}) for i in "ab"]
    c = cluster(node("n"), budget(1), *running)
    for name in "ab":
        c.store.evict(f"default/web-{name}", by="default/x", rule="preempt")
    c.step()
    assert allowed(c) == 0


def test_a_budget_without_status_stays_without() -> None:
    c = cluster(node("n"), budget(None), pod("a", on="n", phase="", labels={"app": "web"}))
    c.step()
    assert allowed(c) is None
