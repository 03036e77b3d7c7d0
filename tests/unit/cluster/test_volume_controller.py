"""Claims get the volume that was chosen for them, or one that is made where their pod goes."""

from __future__ import annotations

import pytest

from builders.embedded import cluster
from builders.manifests import node, pod, typed
from muster.cluster.volume_controller import settle_claim
from muster.model.core import Pod, Volume
from muster.model.meta import ObjectMeta
from muster.model.pod import EphemeralSource, ResourceRequirements, VolumeClaimSpec, VolumeClaimTemplate
from muster.model.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
)
from muster.store import Conflict, NotFound


def claim(name: str = "data", storage_class: str | None = "fast") -> PersistentVolumeClaim:
    wanted = ResourceRequirements(requests={"storage": "1Gi"})
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name), spec=VolumeClaimSpec(resources=wanted, storage_class_name=storage_class)
    )


def fast(topology: str = "") -> StorageClass:
    made = StorageClass(
        metadata=ObjectMeta(name="fast"), provisioner="csi.example", volume_binding_mode="WaitForFirstConsumer"
    )
    if topology:
        term = TopologySelectorRequirement(key=topology, values=["z1", "z2"])
        made.allowed_topologies = [TopologySelectorTerm(match_label_expressions=[term])]
    return made


def topology(volume: PersistentVolume) -> list[tuple[str, list[str]]]:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return []
    return [(e.key, e.values) for term in affinity.required.node_selector_terms for e in term.match_expressions]


def test_both_ends_of_a_binding_are_written() -> None:
    c = cluster(claim(), PersistentVolume(metadata=ObjectMeta(name="pv")))
    settle_claim(c.store, "default/data", "pv", "n")
    bound, volume = c.store.get(PersistentVolumeClaim, "default/data"), c.store.get(PersistentVolume, "pv")
    assert (bound.spec.volume_name, bound.status.phase, volume.status.phase) == ("pv", "Bound", "Bound")
    assert volume.spec.claim_ref is not None
    assert (volume.spec.claim_ref.name, volume.spec.claim_ref.uid) == ("data", "default/data")


def test_saying_it_twice_changes_nothing_and_saying_otherwise_is_a_conflict() -> None:
    volumes = [PersistentVolume(metadata=ObjectMeta(name=name)) for name in ("pv", "other")]
    c = cluster(claim(), claim("second"), *volumes)
    settle_claim(c.store, "default/data", "pv", "n")
    before = c.store.version
    settle_claim(c.store, "default/data", "pv", "n")
    assert c.store.version == before
    with pytest.raises(Conflict, match="bound to pv already"):
        settle_claim(c.store, "default/data", "other", "n")
    with pytest.raises(Conflict, match="belongs to claim default/data"):
        settle_claim(c.store, "default/second", "pv", "n")


def test_a_volume_is_made_in_the_zone_of_the_chosen_node() -> None:
    c = cluster(node("n", labels={"zone": "z1"}), claim(), fast("zone"))
    settle_claim(c.store, "default/data", "", "n")
    made = c.store.get(PersistentVolume, "pvc-default-data")
    assert topology(made) == [("zone", ["z1"])]
    assert (made.spec.storage_class_name, made.spec.capacity) == ("fast", {"storage": "1Gi"})
    bound = c.store.get(PersistentVolumeClaim, "default/data")
    assert bound.metadata.annotations["volume.kubernetes.io/selected-node"] == "n"
    assert bound.spec.volume_name == "pvc-default-data"


def test_the_drivers_own_topology_goes_before_the_classes() -> None:
    driver = CSINodeDriver(name="csi.example", topology_keys=["kubernetes.io/hostname"])
    csi = CSINode(metadata=ObjectMeta(name="n"), spec=CSINodeSpec(drivers=[driver]))
    c = cluster(node("n", labels={"zone": "z1", "kubernetes.io/hostname": "n"}), claim(), fast("zone"), csi)
    settle_claim(c.store, "default/data", "", "n")
    assert topology(c.store.get(PersistentVolume, "pvc-default-data")) == [("kubernetes.io/hostname", ["n"])]


def test_a_class_without_topology_makes_volumes_for_everywhere() -> None:
    c = cluster(node("n"), claim(), fast())
    settle_claim(c.store, "default/data", "", "n")
    assert c.store.get(PersistentVolume, "pvc-default-data").spec.node_affinity is None


def test_without_a_provisioner_no_volume_can_be_made() -> None:
    c = cluster(node("n"), claim(storage_class="absent"))
    with pytest.raises(NotFound, match="absent with a provisioner"):
        settle_claim(c.store, "default/data", "", "n")


def test_an_ephemeral_volume_has_a_claim_that_goes_with_its_pod() -> None:
    user = typed(pod("a"))
    template = VolumeClaimTemplate(spec=claim(storage_class=None).spec)
    user.spec.volumes = [Volume(name="scratch", ephemeral=EphemeralSource(volume_claim_template=template))]
    standard = fast()
    standard.metadata.annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    c = cluster(user, standard)
    made = c.store.get(PersistentVolumeClaim, "default/a-scratch")
    assert made.spec.storage_class_name == "fast"
    assert made.metadata.owner_references[0].uid == "default/a"
    c.store.delete(Pod, "default/a")
    c.step()
    assert c.store.list(PersistentVolumeClaim).items == []
