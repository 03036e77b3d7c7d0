"""Back-off for pods whose binding was refused, for victims under budgets, for failed claims, and for nodes that
rejected a pod.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from builders.manifests import node, queue
from builders.scheduler_objects import EVICTS, EVICTS_BY_VOLCANO, bound, budget, cluster_of, priority_class, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Faults, Leader
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.pod import PodResourceClaim
from muster.model.pod_states import is_rejected
from muster.scheduler.backoffs import BACKOFF_FIRST_S
from muster.scheduler.configuration import read_config
from muster.store import errors


def crowded(*more: object, low: int = 2, namespace: str = "d") -> EmbeddedCluster:
    """One full node, and a pod (in that namespace) that matters more than those on it."""
    lows, high = pod_group("low", members=0), pod_group("high", members=1)
    high.spec.priority_class_name = "high"  # type: ignore[attr-defined]
    pods = [waiting(f"low-{i}", "low", "n1", cpu="2") for i in range(low)]
    claimer = waiting("high", "high", cpu="4", priority=1000)
    for one in (high, claimer):
        one.metadata.namespace = namespace
    return cluster_of(
        queue("default"), node("n1", cpu=str(2 * low)), priority_class("high", 1000), lows, high, *pods,
        claimer, *more,  # type: ignore[arg-type]
    )  # fmt: skip


def message_of(cluster: EmbeddedCluster, pod: str) -> str:
    return next(c.message for c in cluster.store.get(Pod, pod).status.conditions if c.type == "PodScheduled")


def evictions(leader: Leader) -> list[str]:
    return [key for verb, key in leader.calls.made if verb == "evict"]


def test_without_a_budget_the_pods_of_lower_priority_are_evicted() -> None:
    async def run() -> None:
        cluster = crowded()
        leader = Leader(cluster, EVICTS)
        await leader.settle(6)
        assert bound(cluster)["high"] == "n1"

    asyncio.run(run())


def test_pods_that_a_budget_protects_are_not_even_tried() -> None:
    async def run() -> None:
        leader = Leader(crowded(budget("low", 0)), EVICTS)
        await leader.settle(4)
        assert [verb for verb, _ in leader.calls.made if verb.startswith("evict")] == []

    asyncio.run(run())


def test_more_evictions_than_a_budget_allows_are_dropped_with_the_reason() -> None:
    async def run() -> None:
        cluster = crowded(budget("low", 1))
        leader = Leader(cluster, EVICTS_BY_VOLCANO)
        await leader.settle(4)
        assert evictions(leader) == []
        assert message_of(cluster, "d/high") == (
            "no node has enough free capacity without evictions. No capacity was freed: "
            "budget d/keep-low allows 1 more disruptions."
        )
        assert not cluster.store.get(Pod, "d/high").status.nominated_node_name

    asyncio.run(run())


def test_the_claimer_does_not_learn_names_of_another_namespace() -> None:
    async def run() -> None:
        for more, faults, why in (
            ((budget("low", 1),), Faults(), "a budget of another namespace allows 1 more disruptions"),
            ((), RefusesOne(), "the API server (500) keeps a pod of another namespace"),
        ):
            cluster = crowded(*more, namespace="e")
            leader = Leader(cluster, EVICTS_BY_VOLCANO, faults)
            await leader.settle(4)
            assert evictions(leader) == []
            assert why in message_of(cluster, "e/high") and "low-" not in message_of(cluster, "e/high")
            assert not [text for name, _, text in leader.events if name == "high" and "low-" in text]

    asyncio.run(run())


class RefusesOne(Faults):
    def before(self, number: int, verb: str, key: str) -> Exception | None:
        if verb == "evict-dry" and key == "d/low-1":
            return errors.ServerFault(verb, "This pod has more than one PodDisruptionBudget", code=500)
        return None


@pytest.mark.parametrize(("more", "tried"), [((budget("low", 2),), 2), ((), 1)], ids=["under a budget", "no budget"])
def test_one_refused_eviction_drops_all_of_the_claim_and_backs_off(more: tuple[Object, ...], tried: int) -> None:
    """Each pod under a budget is asked about; of other pods, one of each job."""

    async def run() -> None:
        cluster = crowded(*more)
        leader = Leader(cluster, EVICTS, RefusesOne())
        await leader.settle(5)
        assert evictions(leader) == []
        assert sum(verb == "evict-dry" for verb, _ in leader.calls.made) == tried
        assert any(reason == "EvictionRefused" for name, reason, _ in leader.events if name == "high")
        assert bound(cluster) == {"low-0": "n1", "low-1": "n1"}
        leader.assert_exact()

    asyncio.run(run())


class Forbids(Faults):
    def __init__(self) -> None:
        self.times = 0

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        if verb != "bind":
            return None
        self.times += 1
        return errors.Forbidden(verb, "pods/binding is forbidden", code=403)


def test_a_refused_binding_is_retried_with_exponential_backoff() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), waiting("a"))
        faults = Forbids()
        leader = Leader(cluster, faults=faults)
        await leader.settle(30)  # one second each
        assert 4 <= faults.times <= 6
        assert cluster.store.get(Pod, "d/a").status.conditions[0].message.startswith("could not be bound to n1")
        leader.calls._faults = Faults()
        await leader.settle(40)
        assert bound(cluster) == {"a": "n1"}
        leader.assert_exact()

    asyncio.run(run())


def test_pods_with_resource_claims_are_never_bound_even_without_predicates() -> None:
    async def run() -> None:
        claiming = waiting("b")
        claiming.spec.resource_claims = [PodResourceClaim(name="gpu", resource_claim_name="gpu")]
        cluster = cluster_of(queue("default"), node("n1"), waiting("a"), claiming)
        leader = Leader(cluster, 'actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n')
        await leader.settle(8)
        assert bound(cluster) == {"a": "n1"}
        condition = cluster.store.get(Pod, "d/b").status.conditions[0]
        assert "resourceClaims" in condition.message

    asyncio.run(run())


def test_the_capacity_of_victims_is_kept_for_the_claimer() -> None:
    async def run() -> None:
        cluster = crowded()
        leader = Leader(cluster, EVICTS)
        await leader.turn()
        assert cluster.store.get(Pod, "d/high").status.nominated_node_name == "n1"
        assert len(evictions(leader)) == 2
        leader.watch()
        for _ in range(3):
            await leader.turn()  # they are still going: nobody else is evicted
        assert len(evictions(leader)) == 2

    asyncio.run(run())


def test_a_victim_names_only_a_claimer_of_its_own_namespace() -> None:
    async def run() -> None:
        leader = Leader(crowded(), EVICTS)
        await leader.turn()
        texts = [(name, message) for name, reason, message in leader.events if reason == "Evict"]
        assert texts == [("low", "2 pods evicted by preempt to make room for d/high: d/low-0, d/low-1")]

    asyncio.run(run())


def rejected_pod(name: str, on: str, reason: str = "OutOfcpu") -> Pod:
    pod = waiting(name, on=on)
    return replace(pod, status=replace(pod.status, phase="Failed", reason=reason))


def test_only_failed_admission_is_a_rejection() -> None:
    assert is_rejected(rejected_pod("a", "n1")) and is_rejected(rejected_pod("a", "n1", "UnexpectedAdmissionError"))
    assert not is_rejected(rejected_pod("a", "n1", "Evicted")) and not is_rejected(waiting("a", on="n1"))


def test_pods_of_the_same_shape_get_other_nodes_until_the_backoff_ends() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), waiting("x", on="n1"))
        leader = Leader(cluster)
        cluster.store.write(replace(rejected_pod("x", "n1"), metadata=cluster.store.get(Pod, "d/x").metadata))
        cluster.store.create(waiting("same"))
        cluster.store.create(waiting("other", cpu="2"))
        leader.watch()
        await leader.turn()
        assert "same" not in bound(cluster) and bound(cluster)["other"] == "n1"
        assert leader.metrics.registry.get_sample_value(
            "muster_kubelet_rejections_total", {"reason": "OutOfcpu"}
        ) == 1  # fmt: skip
        cluster.advance(1000.0 + BACKOFF_FIRST_S + 1)
        leader.watch()
        await leader.turn()
        assert bound(cluster)["same"] == "n1"

    asyncio.run(run())


def test_a_term_knows_nothing_of_the_rejections_of_the_terms_before_it() -> None:
    """The number of a shape means another one to another term's cache."""

    async def run() -> None:
        loaded = read_config(None)  # as long as the process lives
        cluster = cluster_of(queue("default"), node("n1"), waiting("x", on="n1"))
        first = Leader(cluster, loaded=loaded)
        cluster.store.write(replace(rejected_pod("x", "n1"), metadata=cluster.store.get(Pod, "d/x").metadata))
        first.watch()
        await first.turn()
        cluster.store.delete(Pod, "d/x")
        cluster.store.create(waiting("unrelated", cpu="2"))
        second = Leader(cluster, loaded=loaded)
        await second.turn()
        assert bound(cluster) == {"unrelated": "n1"}

    asyncio.run(run())


def test_a_term_leaves_the_configuration_as_it_was() -> None:
    """Otherwise each term would add its timing and its rejections to the next term's scheduler."""

    async def run() -> None:
        loaded = read_config(None)
        cluster = cluster_of(queue("default"), node("n1"), waiting("a"))
        for _ in range(3):
            await Leader(cluster, loaded=loaded).turn()
        assert loaded == read_config(None)

    asyncio.run(run())
