"""StatefulSets: numbers, order, claims."""

from __future__ import annotations

from builders.embedded import bind_all, cluster, pods_of, selector, template
from builders.manifests import node
from muster.model.batch import Ordinals, StatefulSet, StatefulSetSpec
from muster.model.meta import ObjectMeta
from muster.model.pod import ResourceRequirements, VolumeClaimSpec
from muster.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass


def stateful(replicas: int, policy: str = "OrderedReady", claims: bool = False) -> StatefulSet:
    spec = StatefulSetSpec(replicas=replicas, selector=selector(), template=template(), pod_management_policy=policy)
    if claims:
        wanted = ResourceRequirements(requests={"storage": "1Gi"})
        claim = VolumeClaimSpec(access_modes=["ReadWriteOnce"], resources=wanted, storage_class_name="fast")
        spec.volume_claim_templates = [PersistentVolumeClaim(metadata=ObjectMeta(name="data"), spec=claim)]
    return StatefulSet(metadata=ObjectMeta(name="db", namespace="default"), spec=spec)


def test_the_next_pod_comes_when_the_one_before_is_ready() -> None:
    c = cluster(node("n"), stateful(3))
    seen = []
    for _ in range(3):
        seen.append(sorted(pods_of(c)))
        bind_all(c, "n")
    assert seen == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]


def test_parallel_makes_them_all_at_once() -> None:
    made = stateful(3, "Parallel")
    made.spec.ordinals = Ordinals(start=5)
    assert sorted(pods_of(cluster(made))) == ["db-5", "db-6", "db-7"]


def test_an_evicted_pod_comes_back_under_its_own_name_when_it_is_gone() -> None:
    c = cluster(node("n"), stateful(1))
    bind_all(c, "n")
    c.store.evict("default/db-0", by="default/x", rule="reclaim")
    c.step()
    assert pods_of(c)["db-0"].metadata.deletion_timestamp is not None
    c.advance(1030.0)
    again = pods_of(c)["db-0"]
    assert (again.spec.node_name, again.metadata.uid) == ("", "default/db-0.2")


def test_the_highest_number_goes_first() -> None:
    c = cluster(node("n"), stateful(3, "Parallel"))
    bind_all(c, "n")
    c.store.patch(StatefulSet, "default/db", {"spec": {"replicas": 1}})
    c.step()
    c.advance(1030.0)
    assert sorted(pods_of(c)) == ["db-0"]


def test_each_pod_has_claims_of_its_own_that_outlive_it() -> None:
    fast = StorageClass(metadata=ObjectMeta(name="fast"), provisioner="csi.example", volume_binding_mode="Immediate")
    c = cluster(node("n"), stateful(1, claims=True), fast)
    (volume,) = pods_of(c)["db-0"].spec.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-db-0"
    claim = c.store.get(PersistentVolumeClaim, "default/data-db-0")
    assert (claim.status.phase, claim.spec.volume_name) == ("Bound", "pvc-default-data-db-0")
    assert c.store.get(PersistentVolume, "pvc-default-data-db-0").spec.capacity == {"storage": "1Gi"}
    c.store.delete(StatefulSet, "default/db")
    c.step()
    assert pods_of(c) == {}
    assert len(c.store.list(PersistentVolumeClaim).items) == 1


def test_a_claim_that_waits_for_its_pod_stays_unbound() -> None:
    fast = StorageClass(
        metadata=ObjectMeta(name="fast"), provisioner="csi.example", volume_binding_mode="WaitForFirstConsumer"
    )
    c = cluster(stateful(1, claims=True), fast)
    assert c.store.get(PersistentVolumeClaim, "default/data-db-0").spec.volume_name == ""
