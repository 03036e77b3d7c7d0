"""Pods with the queue's gate: marked when their queue admits them, bound when the gate is removed."""

from __future__ import annotations

import asyncio

from builders.manifests import node, queue
from builders.scheduler_objects import bound, cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Leader
from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.reading import ADMITTED, ALLOCATION_GATE
from muster.groupctl.controllers.pod_group_service import QueueGateController
from muster.model.core import Pod, PodSchedulingGate
from muster.model.scheduling import PodGroup


def gated(name: str, group: str = "", cpu: str = "1") -> Pod:
    pod = waiting(name, group, cpu=cpu)
    pod.metadata.annotations = {**pod.metadata.annotations, ALLOCATION_GATE: "true"}
    pod.spec.scheduling_gates = [PodSchedulingGate(name=ALLOCATION_GATE)]
    return pod


def admitted(cluster: EmbeddedCluster) -> list[str]:
    pods = cluster.store.of(Pod).values()
    return sorted(p.metadata.name for p in pods if p.metadata.annotations.get(ADMITTED) == "true")


def test_a_gang_with_gated_pods_is_bound_whole_after_the_gates_are_open() -> None:
    async def run() -> None:
        pods = gated("a", "g"), waiting("b", "g")
        cluster = cluster_of(queue("default"), node("n0"), pod_group("g", members=2), *pods)
        leader = Leader(cluster)
        await leader.turn()
        assert (bound(cluster), admitted(cluster)) == ({}, ["a"])
        assert cluster.store.get(PodGroup, "d/g").status.phase == "Inqueue"
        leader.watch()
        await leader.turn()
        assert bound(cluster) == {}, "marked, but the gate is not open"
        cluster.join(QueueGateController(cluster.store))
        leader.watch()
        await leader.settle(2)
        assert set(bound(cluster)) == {"a", "b"}
        leader.assert_exact()

    asyncio.run(run())


def test_a_pod_that_no_node_takes_is_admitted_and_one_that_its_queue_refuses_is_not() -> None:
    async def run() -> None:
        lost = gated("lost", "g")
        lost.spec.node_selector = {"disk": "none"}
        small = pod_group("other", members=1)
        small.spec.queue = "small"  # type: ignore[attr-defined]
        cluster = cluster_of(
            queue("default"), queue("small", capability={"cpu": "1"}), node("n0"), small, pod_group("g", members=1),
            lost, gated("much", "other", cpu="2"),
        )  # fmt: skip
        await Leader(cluster).turn()
        assert admitted(cluster) == ["lost"]

    asyncio.run(run())


def test_the_capacity_of_the_queue_is_kept_for_a_pod_until_its_gate_is_removed() -> None:
    async def run() -> None:
        group = pod_group("g", members=1)
        group.spec.queue = "small"  # type: ignore[attr-defined]
        small = queue("small", capability={"cpu": "1"})
        cluster = cluster_of(queue("default"), small, node("n0"), group, gated("a", "g"), gated("b", "g"))
        leader = Leader(cluster)
        for _ in range(3):
            await leader.turn()
            leader.watch()
        assert (bound(cluster), admitted(cluster)) == ({}, ["a"])

    asyncio.run(run())


def test_other_scheduling_gates_are_not_changed() -> None:
    async def run() -> None:
        both = gated("a")
        both.spec.scheduling_gates.append(PodSchedulingGate(name="theirs"))
        cluster = cluster_of(queue("default"), node("n0"), both)
        await Leader(cluster).turn()
        assert (bound(cluster), admitted(cluster)) == ({}, [])

    asyncio.run(run())
