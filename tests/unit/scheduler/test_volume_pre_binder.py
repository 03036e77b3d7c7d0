"""Claims first, then the binding; and nothing left behind when they are not met."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from builders.manifests import node, queue
from builders.scheduler_objects import bound, cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Leader
from muster.cluster.embedded import EmbeddedCluster
from muster.engine.volumes.volume_claims import BIND_COMPLETED, SELECTED_NODE
from muster.model.core import Pod, Volume
from muster.model.meta import ObjectMeta
from muster.model.pod import PersistentVolumeClaimSource, ResourceRequirements, VolumeClaimSpec
from muster.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    StorageClass,
)
from muster.scheduler.binder import VolumePreBinder
from muster.scheduler.status import PodStatusPatch


def with_claim(provisioner: str, *, volume: bool) -> EmbeddedCluster:
    pod = waiting("a")
    pod.spec.volumes = [Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="data"))]
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="d"),
        spec=VolumeClaimSpec(
            access_modes=["ReadWriteOnce"], storage_class_name="late",
            resources=ResourceRequirements(requests={"storage": "1Gi"}),
        ),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )  # fmt: skip
    late = StorageClass(
        metadata=ObjectMeta(name="late"), provisioner=provisioner, volume_binding_mode="WaitForFirstConsumer"
    )
    spec = PersistentVolumeSpec(capacity={"storage": "2Gi"}, access_modes=["ReadWriteOnce"], storage_class_name="late")
    volumes = [PersistentVolume(metadata=ObjectMeta(name="pv1"), spec=spec)] if volume else []
    return cluster_of(queue("default"), node("n1"), pod, claim, late, *volumes)


def bind_claim(cluster: EmbeddedCluster, volume: str) -> None:
    """What the volume controller does in the end."""
    claim = cluster.store.get(PersistentVolumeClaim, "d/data")
    meta = replace(claim.metadata, annotations={**claim.metadata.annotations, BIND_COMPLETED: "yes"})
    spec, status = replace(claim.spec, volume_name=volume), replace(claim.status, phase="Bound")
    cluster.store.write(replace(claim, metadata=meta, spec=spec, status=status))


async def begun(cluster: EmbeddedCluster, timeout_s: float) -> Leader:
    leader = Leader(cluster)
    leader.binder._volumes = VolumePreBinder(leader.calls, timeout_s, 0.01)
    leader.binder.start(leader.decide().commits)
    for _ in range(20):
        await asyncio.sleep(0)
    return leader


def test_the_pod_waits_for_the_volume_of_its_node() -> None:
    async def run() -> None:
        cluster = with_claim("driver.example", volume=False)
        leader = await begun(cluster, 5.0)
        claim = cluster.store.get(PersistentVolumeClaim, "d/data")
        assert claim.metadata.annotations[SELECTED_NODE] == "n1"
        assert bound(cluster) == {}
        bind_claim(cluster, "made")
        await leader.landed()
        assert bound(cluster) == {"a": "n1"}

    asyncio.run(run())


def test_an_existing_volume_is_given_to_the_claim() -> None:
    async def run() -> None:
        cluster = with_claim("kubernetes.io/no-provisioner", volume=True)
        leader = await begun(cluster, 5.0)
        claim_ref = cluster.store.get(PersistentVolume, "pv1").spec.claim_ref
        assert claim_ref is not None and (claim_ref.namespace, claim_ref.name) == ("d", "data")
        bind_claim(cluster, "pv1")
        await leader.landed()
        assert bound(cluster) == {"a": "n1"}

    asyncio.run(run())


def test_claims_that_are_not_bound_in_time_leave_nothing_behind() -> None:
    async def run() -> None:
        cluster = with_claim("driver.example", volume=False)
        leader = await begun(cluster, 0.03)
        await leader.landed()
        claim = cluster.store.get(PersistentVolumeClaim, "d/data")
        assert SELECTED_NODE not in claim.metadata.annotations
        assert bound(cluster) == {}
        leader.watch()
        leader.assert_exact()
        assert any("was not bound within" in message for _, _, message in leader.events)
        patches = [patch for patch in leader.decide().status_patches if isinstance(patch, PodStatusPatch)]
        assert [patch.condition.message.partition(" within")[0] for patch in patches] == [
            "could not be bound to n1: claim d/data was not bound"
        ]  # fmt: skip

    asyncio.run(run())


def test_a_volume_whose_claim_is_not_bound_in_time_is_as_it_was() -> None:
    async def run() -> None:
        cluster = with_claim("kubernetes.io/no-provisioner", volume=True)
        before = cluster.store.get(PersistentVolume, "pv1")
        leader = await begun(cluster, 0.03)
        assert cluster.store.get(PersistentVolume, "pv1").spec.claim_ref is not None
        await leader.landed()
        after = cluster.store.get(PersistentVolume, "pv1")
        assert (after.spec, after.metadata.annotations) == (before.spec, before.metadata.annotations)
        assert bound(cluster) == {}

    asyncio.run(run())


def test_a_scheduler_that_stops_resets_the_claims_that_it_waits_for() -> None:
    async def run() -> None:
        cluster = with_claim("driver.example", volume=False)
        leader = await begun(cluster, 600)
        assert SELECTED_NODE in cluster.store.get(PersistentVolumeClaim, "d/data").metadata.annotations
        assert await leader.binder.finished(5)
        assert SELECTED_NODE not in cluster.store.get(PersistentVolumeClaim, "d/data").metadata.annotations
        assert bound(cluster) == {}

    asyncio.run(run())


def test_no_pod_of_a_gang_is_bound_if_the_claims_of_one_are_not() -> None:
    async def run() -> None:
        cluster = with_claim("driver.example", volume=False)
        with_volume = cluster.store.get(Pod, "d/a")
        cluster.store.delete(Pod, "d/a")
        cluster.store.create(pod_group("gang", members=3))
        for name in "bcd":
            pod = waiting(name, "gang")
            if name == "c":
                pod.spec.volumes = with_volume.spec.volumes
            cluster.store.create(pod)
        leader = await begun(cluster, 5.0)
        claim = cluster.store.get(PersistentVolumeClaim, "d/data")
        cluster.store.write(replace(claim, metadata=replace(claim.metadata, annotations={})))
        await leader.landed()
        assert bound(cluster) == {} and [verb for verb, _ in leader.calls.made].count("bind") == 0
        leader.watch()
        leader.assert_exact()
        assert leader.cache.committing == set() and leader.cache.unfinished == {}

    asyncio.run(run())


def test_a_driver_that_rejects_the_node_ends_the_wait() -> None:
    async def run() -> None:
        cluster = with_claim("driver.example", volume=False)
        leader = await begun(cluster, 5.0)
        claim = cluster.store.get(PersistentVolumeClaim, "d/data")
        cluster.store.write(replace(claim, metadata=replace(claim.metadata, annotations={})))
        await leader.landed()
        assert bound(cluster) == {} and cluster.store.get(Pod, "d/a").spec.node_name == ""
        assert any("as its driver reports" in message for _, _, message in leader.events)

    asyncio.run(run())
