"""What the volume rules of the predicates plugin refuse, with kube-scheduler's messages."""

from __future__ import annotations

import pytest

from builders.storage_cluster import (
    Cluster,
    Manifest,
    claim,
    csi_node,
    pod_with_volumes,
    storage_class,
    volume,
    zone_node,
)
from muster.engine.core.hooks import Batch
from muster.plugins.predicates.volumes import (
    VolumeBinding,
    VolumeLimits,
    VolumeRestrictions,
    VolumeZone,
)

ALL_TERMS = (VolumeRestrictions, VolumeLimits, VolumeZone, VolumeBinding)
NODES = (zone_node("n1", zone="a"), zone_node("n2", zone="b"))
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def gce(name: str, read_only: bool = False) -> Manifest:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def aws(name: str, read_only: bool = False) -> Manifest:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str, read_only: bool = False) -> Manifest:
    return {"iscsi": {"iqn": name, "readOnly": read_only}}


def rbd(monitors: str, image: str, read_only: bool = False) -> Manifest:
    return {"rbd": {"monitors": monitors.split(), "image": image, "readOnly": read_only}}


def csi(name: str, handle: str, driver: str = "ebs") -> Manifest:
    return volume(name, storage_class="", csi={"driver": driver, "volumeHandle": handle})


def bound(name: str, volume_name: str, **spec: object) -> Manifest:
    return claim(name, "", volumeName=volume_name, **spec)


def with_meta(manifest: Manifest, **meta: object) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | meta}


class TestPodsWithoutClaims:
    @pytest.mark.parametrize("spec", [(), ({"emptyDir": {}},), ({"configMap": {"name": "c"}},)])
    def test_are_passed_over_by_every_term(self, spec: tuple[Manifest, ...]) -> None:
        cluster = Cluster(*NODES, pod_with_volumes("p", *spec))
        assert {cluster.term(t).batch(cluster.task("p")) for t in ALL_TERMS} == {Batch.SKIP}
        assert cluster.volumes.cluster_signature(cluster.task("p")) is None


class TestSignature:
    def test_names_the_claims_that_cannot_be_used_yet(self) -> None:
        cluster = Cluster(
            pod_with_volumes("p", "c"), pod_with_volumes("q", {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        )
        assert cluster.volumes.cluster_signature(cluster.task("p")) == ("default", "c")
        assert cluster.volumes.cluster_signature(cluster.task("q")) == ("default", "q-v0")

    def test_pods_whose_volumes_any_node_reaches_are_equal_and_no_volume_filter_concerns_them(self) -> None:
        bindings = [m for i in "01" for m in (bound(f"c{i}", f"v{i}"), volume(f"v{i}", storage_class=""))]
        cluster = Cluster(*NODES, *bindings, pod_with_volumes("p", "c0"), pod_with_volumes("q", "c1"))
        p, q = cluster.task("p"), cluster.task("q")
        assert p.shape is q.shape
        assert cluster.session.signature(p) == cluster.session.signature(q)
        assert {cluster.term(t).batch(p) for t in ALL_TERMS} == {Batch.SKIP}

    @pytest.mark.parametrize(
        ("rules", "equal"),
        [
            ((("v0", "n1"), ("v1", "n1")), True),
            ((("v0", "n1"), ("v1", "n2")), False),
            ((("v0", "n1"), ("v1", "")), False),
        ],
    )
    def test_pods_are_equal_if_their_volumes_demand_the_same_of_a_node(
        self, rules: tuple[tuple[str, str], ...], equal: bool
    ) -> None:
        volumes = [volume(name, at=at, storage_class="") for name, at in rules]
        cluster = Cluster(
            *NODES, *volumes, bound("c0", "v0"), bound("c1", "v1"),
            pod_with_volumes("p", "c0"), pod_with_volumes("q", "c1"),
        )  # fmt: skip
        found = {cluster.session.signature(cluster.task(name)) for name in "pq"}
        assert (len(found) == 1) is equal

    def test_pods_with_claims_for_one_pod_only_or_limited_drivers_differ(self) -> None:
        once = {"accessModes": ["ReadWriteOncePod"]}
        cluster = Cluster(
            *NODES, csi_node("n1", ebs=1), csi("v0", "h0"), csi("v1", "h1"), bound("c0", "v0"), bound("c1", "v1"),
            volume("v2", storage_class=""), bound("c2", "v2", **once),
            *(pod_with_volumes(f"p{i}", f"c{i}") for i in range(3)),
        )  # fmt: skip
        assert len({cluster.session.signature(cluster.task(f"p{i}")) for i in range(3)}) == 3


class TestVolumeRestrictions:
    @pytest.mark.parametrize(
        ("mine", "theirs", "conflict"),
        [
            (gce("d"), gce("d"), True),
            (gce("d", True), gce("d"), True),
            (gce("d", True), gce("d", True), False),
            (gce("d"), gce("e"), False),
            (aws("d"), aws("d"), True),
            (aws("d", True), aws("d", True), True),
            (iscsi("d"), iscsi("d", True), True),
            (iscsi("d", True), iscsi("d", True), False),
            (rbd("m1 m2", "i"), rbd("m2 m3", "i"), True),
            (rbd("m1", "i"), rbd("m2", "i"), False),
            (rbd("m1", "i", True), rbd("m1", "i", True), False),
            (gce("d"), iscsi("d"), False),
        ],
    )
    def test_keep_apart_what_cannot_share_a_disk(self, mine: Manifest, theirs: Manifest, conflict: bool) -> None:
        cluster = Cluster(*NODES, pod_with_volumes("other", theirs, on="n1"), pod_with_volumes("p", mine))
        expected = {"n1": "node(s) had no available disk" if conflict else "", "n2": ""}
        assert cluster.refusals(VolumeRestrictions, "p") == expected

    def test_let_one_pod_of_the_cluster_use_a_claim_for_one_pod(self) -> None:
        once = bound("c", "v", accessModes=["ReadWriteOncePod"])
        cluster = Cluster(
            *NODES, once, volume("v"), pod_with_volumes("other", "c", on="n1"), pod_with_volumes("p", "c")
        )
        assert cluster.refusals(VolumeRestrictions, "p") == {"n1": IN_USE, "n2": IN_USE}

    def test_see_a_claim_taken_in_this_cycle_and_given_back(self) -> None:
        once = bound("c", "v", accessModes=["ReadWriteOncePod"])
        cluster = Cluster(*NODES, once, volume("v"), pod_with_volumes("p", "c"), pod_with_volumes("q", "c"))
        assert cluster.taken_by(VolumeRestrictions, "q") == ["n1", "n2"]
        statement = cluster.session.statement()
        statement.allocate([cluster.task("p")], [0])
        assert cluster.taken_by(VolumeRestrictions, "q") == []
        statement.discard()
        assert cluster.taken_by(VolumeRestrictions, "q") == ["n1", "n2"]

    def test_say_nothing_of_claims_that_may_be_shared(self) -> None:
        cluster = Cluster(*NODES, bound("c", "v"), volume("v"), pod_with_volumes("p", "c"))
        assert cluster.term(VolumeRestrictions).batch(cluster.task("p")) == Batch.SKIP


class TestVolumeLimits:
    def test_count_the_volumes_of_the_pods_on_a_node_once_each(self) -> None:
        objects = [csi(f"v{i}", f"h{i}") for i in range(3)] + [bound(f"c{i}", f"v{i}") for i in range(3)]
        running = [
            pod_with_volumes("a", "c0", on="n1"),
            pod_with_volumes("b", "c0", on="n1"),
            pod_with_volumes("d", "c1", on="n2"),
        ]
        cluster = Cluster(
            *NODES, csi_node("n1", ebs=2), csi_node("n2", ebs=1), *objects, *running, pod_with_volumes("p", "c2")
        )
        assert cluster.refusals(VolumeLimits, "p") == {"n1": "", "n2": "node(s) exceed max volume count"}

    def test_do_not_count_a_volume_that_is_attached_already(self) -> None:
        cluster = Cluster(
            *NODES,
            csi_node("n1", ebs=1),
            csi("v", "h"),
            bound("c", "v"),
            pod_with_volumes("a", "c", on="n1"),
            pod_with_volumes("p", "c"),
        )
        assert cluster.taken_by(VolumeLimits, "p") == ["n1", "n2"]

    def test_count_an_unbound_claim_for_the_driver_of_its_class(self) -> None:
        cluster = Cluster(
            *NODES,
            csi_node("n1", ebs=0),
            csi_node("n2"),
            storage_class("fast", "ebs"),
            claim("c", "fast"),
            pod_with_volumes("p", "c"),
        )
        assert cluster.taken_by(VolumeLimits, "p") == ["n2"]

    def test_follow_the_placements_of_the_cycle(self) -> None:
        objects = [csi("v0", "h0"), csi("v1", "h1"), bound("c0", "v0"), bound("c1", "v1")]
        cluster = Cluster(
            *NODES, csi_node("n1", ebs=1), *objects, pod_with_volumes("p", "c0"), pod_with_volumes("q", "c1")
        )
        cluster.place("p", "n1")
        assert cluster.taken_by(VolumeLimits, "q") == ["n2"]

    def test_count_an_in_tree_disk_where_a_driver_does_its_work(self) -> None:
        limits = {"pd_csi_storage_gke_io": 0}
        nodes = [csi_node("n1", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs", **limits), csi_node("n2", **limits)]
        cluster = Cluster(*NODES, *nodes, pod_with_volumes("p", gce("d")))
        assert cluster.taken_by(VolumeLimits, "p") == ["n2"]


class TestVolumeZone:
    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            ({"topology.kubernetes.io/zone": "a"}, ["n1", "plain"]),
            ({"topology.kubernetes.io/zone": "a__b"}, ["n1", "n2", "plain"]),
            ({"topology.kubernetes.io/zone": "c"}, ["plain"]),
            ({"failure-domain.beta.kubernetes.io/zone": "b"}, ["n2", "plain"]),
            ({"topology.kubernetes.io/region": "r"}, ["plain"]),
            ({"topology.kubernetes.io/zone": "a__"}, ["n1", "n2", "plain"]),
            ({"other": "x"}, ["n1", "n2", "plain"]),
        ],
    )
    def test_wants_the_zone_that_the_volume_names(self, labels: dict[str, str], expected: list[str]) -> None:
        labelled = with_meta(volume("v"), labels=labels)
        cluster = Cluster(*NODES, zone_node("plain"), labelled, bound("c", "v"), pod_with_volumes("p", "c"))
        assert cluster.taken_by(VolumeZone, "p") == expected

    def test_refuses_with_kube_schedulers_message(self) -> None:
        labelled = with_meta(volume("v"), labels={"topology.kubernetes.io/zone": "a"})
        cluster = Cluster(*NODES, labelled, bound("c", "v"), pod_with_volumes("p", "c"))
        assert cluster.refusals(VolumeZone, "p")["n2"] == "node(s) had no available volume zone"


class TestClaimsThatKeepAPodFromEveryNode:
    @pytest.mark.parametrize(
        ("objects", "text"),
        [
            ([], 'persistentvolumeclaim "c" not found'),
            (
                [claim("c", "now"), storage_class("now", mode="Immediate")],
                "pod has unbound immediate PersistentVolumeClaims",
            ),
            ([claim("c", None)], "pod has unbound immediate PersistentVolumeClaims"),
            ([claim("c", "no-such-class")], "pod has unbound immediate PersistentVolumeClaims"),
            (
                [claim("c", "", volumeName="v") | {"status": {"phase": "Pending"}}],
                "pod has unbound immediate PersistentVolumeClaims",
            ),
            (
                [claim("c", "", volumeName="v") | {"status": {"phase": "Lost"}}],
                'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            ),
            (
                [with_meta(bound("c", "v"), deletionTimestamp="2026-01-01T00:00:00Z")],
                'persistentvolumeclaim "c" is being deleted',
            ),
            ([bound("c", "v")], "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        ],
    )
    def test_are_named(self, objects: list[Manifest], text: str) -> None:
        cluster = Cluster(*NODES, *objects, pod_with_volumes("p", "c"))
        assert cluster.refusals(VolumeBinding, "p") == {"n1": text, "n2": text}
        verdict = cluster.term(VolumeBinding).filter(cluster.task("p"), cluster.state.nodes.everything())
        assert not verdict.reasons[int(verdict.code[0]) - 1].resolvable

    def test_an_ephemeral_volume_waits_for_its_claim(self) -> None:
        cluster = Cluster(*NODES, pod_with_volumes("p", {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}))
        text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"'
        assert cluster.refusals(VolumeBinding, "p")["n1"] == text

    @pytest.mark.parametrize(
        ("owner", "text"),
        [("p", ""), ("other", "PVC default/p-v0 was not created for pod default/p (pod is not owner)")],
    )
    def test_an_ephemeral_volume_s_claim_is_the_pod_s_own(self, owner: str, text: str) -> None:
        owners = [{"kind": "Pod", "name": owner, "controller": True}]
        made = with_meta(claim("p-v0"), ownerReferences=owners)
        ephemeral = pod_with_volumes("p", {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        cluster = Cluster(*NODES, storage_class("local"), volume("v"), made, ephemeral)
        assert cluster.refusals(VolumeBinding, "p")["n1"] == text


class TestBoundClaims:
    def test_keep_the_pod_where_their_volume_reaches(self) -> None:
        cluster = Cluster(*NODES, volume("v", at="n2"), bound("c", "v"), pod_with_volumes("p", "c"))
        assert cluster.refusals(VolumeBinding, "p") == {"n1": AFFINITY, "n2": ""}
        assert cluster.term(VolumeBinding).batch(cluster.task("p")) == Batch.COLUMNS

    @pytest.mark.parametrize(
        ("terms", "expected"),
        [
            ([], []),
            ([{}], []),
            ([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}], ["n1"]),
            ([{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}], ["n2"]),
            ([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]}], ["n2"]),
            ([{"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["3"]}]}], ["n1"]),
            (
                [
                    {
                        "matchExpressions": [
                            {"key": "n", "operator": "In", "values": ["5"]},
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]},
                        ]
                    }
                ],
                ["n1"],
            ),
            ([{"matchExpressions": [{"key": "n", "operator": "Nonsense", "values": ["3"]}]}], []),
            ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], []),
            (
                [
                    {"matchExpressions": [{"key": "n", "operator": "In", "values": ["5"]}]},
                    {"matchExpressions": [{"key": "n", "operator": "In", "values": ["2", "7"]}]},
                ],
                ["n1", "n2"],
            ),
        ],
    )
    def test_read_every_kind_of_affinity(self, terms: list[Manifest], expected: list[str]) -> None:
        affine = volume("v", nodeAffinity={"required": {"nodeSelectorTerms": terms}})
        nodes = (zone_node("n1", disk="ssd", n="5"), zone_node("n2", n="2"))
        cluster = Cluster(*nodes, affine, bound("c", "v"), pod_with_volumes("p", "c"))
        assert cluster.taken_by(VolumeBinding, "p") == expected
