"""Unbound claims: which volume they get, what can be made for them, and what is reserved in a cycle."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.storage_cluster import Cluster, Manifest, claim, pod_with_volumes, storage_class, volume, zone_node
from muster.engine.core.hooks import Batch
from muster.plugins.predicates.volumes import VolumeBinding
from strategies.profiles import examples

NODES = (zone_node("n1", zone="a"), zone_node("n2", zone="b"))
LOCAL = storage_class("local")
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def labelled(manifest: Manifest, **labels: str) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | {"labels": labels}}


class TestAFreeVolume:
    @pytest.mark.parametrize(
        ("wanted", "offered", "fits"),
        [
            (claim("c", size="2Gi"), volume("v", "1Gi"), False),
            (claim("c", size="1Gi"), volume("v", "1Gi"), True),
            (claim("c", accessModes=["ReadWriteMany"]), volume("v"), False),
            (claim("c"), volume("v", accessModes=["ReadWriteMany", "ReadWriteOnce"]), True),
            (claim("c", volumeMode="Block"), volume("v"), False),
            (claim("c", volumeMode="Block"), volume("v", volumeMode="Block"), True),
            (claim("c"), volume("v", storage_class="other"), False),
            (claim("c", selector={"matchLabels": {"tier": "hot"}}), volume("v"), False),
            (claim("c", selector={"matchLabels": {"tier": "hot"}}), labelled(volume("v"), tier="hot"), True),
            (claim("c"), volume("v") | {"status": {"phase": "Available"}}, True),
            (claim("c"), volume("v") | {"status": {"phase": "Failed"}}, False),
            (claim("c"), volume("v", claimRef={"namespace": "default", "name": "other"}), False),
            (claim("c"), volume("v", claimRef={"namespace": "default", "name": "c"}), True),
            (claim("c"), volume("v", claimRef={"namespace": "default", "name": "c", "uid": "old"}), False),
            (claim("c"), volume("v", "rubbish"), False),
        ],
    )
    def test_must_be_what_the_claim_asks_for(self, wanted: Manifest, offered: Manifest, fits: bool) -> None:
        cluster = Cluster(*NODES, LOCAL, wanted, offered, pod_with_volumes("p", "c"))
        text = "" if fits else NO_VOLUME
        assert cluster.refusals(VolumeBinding, "p") == {"n1": text, "n2": text}

    def test_is_the_smallest_that_fits_then_the_first_by_name(self) -> None:
        offered = [volume("big", "9Gi"), volume("b", "3Gi"), volume("a", "3Gi"), volume("small", "1Gi")]
        cluster = Cluster(*NODES, LOCAL, claim("c", size="2Gi"), *offered, pod_with_volumes("p", "c"))
        cluster.place("p", "n1")
        assert cluster.effects("p") == {"default/c": {"volumeName": "a"}}

    def test_is_looked_for_where_the_node_reaches(self) -> None:
        offered = [volume("a", "1Gi", at="n2"), volume("b", "5Gi", at="n1")]
        cluster = Cluster(*NODES, zone_node("n3"), LOCAL, claim("c"), *offered, pod_with_volumes("p", "c"))
        assert cluster.taken_by(VolumeBinding, "p") == ["n1", "n2"]
        cluster.place("p", "n1")
        assert cluster.effects("p") == {"default/c": {"volumeName": "b"}}

    def test_is_given_to_one_claim_of_a_pod(self) -> None:
        offered = [volume("a", "5Gi", at="n1"), volume("b", "1Gi", at="n1"), volume("d", "9Gi", at="n2")]
        claims = [claim("large", size="4Gi"), claim("small", size="1Gi")]
        cluster = Cluster(*NODES, LOCAL, *claims, *offered, pod_with_volumes("p", "large", "small"))
        assert cluster.taken_by(VolumeBinding, "p") == ["n1"]
        cluster.place("p", "n1")
        assert cluster.effects("p") == {"default/large": {"volumeName": "a"}, "default/small": {"volumeName": "b"}}

    def test_comes_from_the_default_class_if_the_claim_names_none(self) -> None:
        meta = {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        cluster = Cluster(
            *NODES, LOCAL | {"metadata": meta}, claim("c", None), volume("v", at="n1"), pod_with_volumes("p", "c")
        )
        assert cluster.taken_by(VolumeBinding, "p") == ["n1"]


@examples(80)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["", "n1", "n2", "n1 n2"])), max_size=8),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_choosing_for_all_nodes_at_once_is_choosing_node_by_node(
    offered: list[tuple[int, str]], wanted: list[int]
) -> None:
    volumes = [volume(f"v{i}", f"{size}Gi", at=at) for i, (size, at) in enumerate(offered)]
    claims = [claim(f"c{i}", size=f"{size}Gi") for i, size in enumerate(wanted)]
    cluster = Cluster(*NODES, LOCAL, *volumes, *claims, pod_with_volumes("p", *(f"c{i}" for i in range(len(wanted)))))
    for name in ("n1", "n2"):
        left = sorted((size, f"v{i}") for i, (size, at) in enumerate(offered) if not at or name in at.split())
        given: dict[str, dict[str, str]] = {}
        for size, i in sorted((size, i) for i, size in enumerate(wanted)):
            fitting = [v for v in left if v[0] >= size]
            if fitting:
                left.remove(fitting[0])
                given[f"default/c{i}"] = {"volumeName": fitting[0][1]}
        fits = len(given) == len(wanted)
        assert (name in cluster.taken_by(VolumeBinding, "p")) == fits
        statement = cluster.session.statement()
        statement.allocate([cluster.task("p")], [cluster.state.nodes.rank[name]])
        assert cluster.effects("p") == (given if fits else {})
        statement.discard()


class TestAVolumeToBeMade:
    def test_is_made_for_the_node(self) -> None:
        cluster = Cluster(*NODES, storage_class("fast", "csi"), claim("c", "fast"), pod_with_volumes("p", "c"))
        assert cluster.taken_by(VolumeBinding, "p") == ["n1", "n2"]
        cluster.place("p", "n2")
        assert cluster.effects("p") == {"default/c": {"selectedNode": "n2"}}

    def test_is_made_only_where_the_class_allows(self) -> None:
        only_b = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b", "c"]}]}]
        fast = storage_class("fast", "csi", allowedTopologies=only_b)
        cluster = Cluster(*NODES, fast, claim("c", "fast"), pod_with_volumes("p", "c"))
        assert cluster.refusals(VolumeBinding, "p") == {"n1": NO_VOLUME, "n2": ""}

    @pytest.mark.parametrize(
        ("capacity", "selector", "expected"),
        [
            ({"capacity": "5Gi"}, {}, ["n1", "n2"]),
            ({"capacity": "1Gi"}, {}, []),
            ({"capacity": "9Gi", "maximumVolumeSize": "1Gi"}, {}, []),
            ({"capacity": "1Gi", "maximumVolumeSize": "9Gi"}, {}, ["n1", "n2"]),
            ({"capacity": "5Gi"}, {"matchLabels": {"topology.kubernetes.io/zone": "a"}}, ["n1"]),
            ({"capacity": "5Gi"}, None, []),
            ({}, {}, []),
        ],
    )
    def test_needs_capacity_where_the_driver_publishes_it(
        self, capacity: Manifest, selector: Manifest | None, expected: list[str]
    ) -> None:
        reported: Manifest = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "x"},
        }
        reported |= {"storageClassName": "fast", **capacity}
        if selector is not None:
            reported["nodeTopology"] = selector
        driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi"}}
        fast = storage_class("fast", "csi")
        cluster = Cluster(
            *NODES,
            fast,
            driver | {"spec": {"storageCapacity": True}},
            reported,
            claim("c", "fast", "2Gi"),
            pod_with_volumes("p", "c"),
        )
        assert cluster.taken_by(VolumeBinding, "p") == expected
        refused = set(cluster.refusals(VolumeBinding, "p").values()) - {""}
        assert refused <= {"node(s) did not have enough free storage"}
        silent = Cluster(*NODES, fast, driver, reported, claim("c", "fast", "2Gi"), pod_with_volumes("p", "c"))
        assert silent.taken_by(VolumeBinding, "p") == ["n1", "n2"]

    def test_stays_where_an_earlier_cycle_put_it(self) -> None:
        chosen = claim("c", "fast")
        chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n2"}
        cluster = Cluster(*NODES, storage_class("fast", "csi"), chosen, pod_with_volumes("p", "c"))
        assert cluster.refusals(VolumeBinding, "p") == {"n1": NO_VOLUME, "n2": ""}

    def test_steps_in_where_no_free_volume_reaches(self) -> None:
        cluster = Cluster(
            *NODES,
            storage_class("fast", "csi"),
            claim("c", "fast"),
            volume("v", at="n1", storage_class="fast"),
            pod_with_volumes("p", "c"),
        )
        cluster.place("p", "n2")
        assert cluster.effects("p") == {"default/c": {"selectedNode": "n2"}}


class TestReservations:
    def test_the_second_pod_sees_the_volume_taken_until_it_is_given_back(self) -> None:
        cluster = Cluster(
            *NODES, LOCAL, claim("c"), claim("d"), volume("v"), pod_with_volumes("p", "c"), pod_with_volumes("q", "d")
        )
        statement = cluster.session.statement()
        statement.allocate([cluster.task("p")], [0])
        assert cluster.refusals(VolumeBinding, "q") == {"n1": NO_VOLUME, "n2": NO_VOLUME}
        statement.discard()
        assert cluster.taken_by(VolumeBinding, "q") == ["n1", "n2"]

    def test_pods_that_share_a_claim_go_where_its_volume_is(self) -> None:
        cluster = Cluster(
            *NODES,
            LOCAL,
            claim("c"),
            volume("v", at="n1"),
            volume("w", at="n2"),
            pod_with_volumes("p", "c"),
            pod_with_volumes("q", "c"),
        )
        assert cluster.term(VolumeBinding).batch(cluster.task("q")) == Batch.SINGLE
        cluster.place("p", "n2")
        assert cluster.taken_by(VolumeBinding, "q") == ["n2"]
        assert cluster.term(VolumeBinding).batch(cluster.task("q")) == Batch.COLUMNS
        cluster.place("q", "n2")
        assert cluster.effects("p") == cluster.effects("q") == {"default/c": {"volumeName": "w"}}

    def test_pods_that_share_a_claim_go_where_its_volume_is_made(self) -> None:
        cluster = Cluster(
            *NODES,
            storage_class("fast", "csi"),
            claim("c", "fast"),
            pod_with_volumes("p", "c"),
            pod_with_volumes("q", "c"),
        )
        cluster.place("p", "n1")
        assert cluster.taken_by(VolumeBinding, "q") == ["n1"]

    def test_a_claim_stays_settled_while_another_pod_uses_it(self) -> None:
        cluster = Cluster(
            *NODES,
            LOCAL,
            claim("c"),
            claim("d"),
            volume("v"),
            *(pod_with_volumes(n, "c") for n in "pq"),
            pod_with_volumes("r", "d"),
        )
        first, second = cluster.session.statement(), cluster.session.statement()
        first.allocate([cluster.task("p")], [0])
        second.allocate([cluster.task("q")], [0])
        first.discard()
        assert cluster.taken_by(VolumeBinding, "r") == []
        second.discard()
        assert cluster.taken_by(VolumeBinding, "r") == ["n1", "n2"]

    def test_nothing_is_left_when_the_cycle_ends(self) -> None:
        cluster = Cluster(*NODES, LOCAL, claim("c"), volume("v"), pod_with_volumes("p", "c"))
        cluster.place("p", "n1")
        cluster.session.close()
        assert (cluster.volumes.assumed, cluster.volumes.use().users) == ({}, {})


OFFERED = [volume(f"v{i}", f"{1 + i % 3}Gi", at=("n1", "n2", "n1 n2", "")[i % 4]) for i in range(7)]
CLAIMS = [claim(f"c{i}", ("local", "fast")[i % 2], f"{1 + i % 3}Gi") for i in range(6)]


@st.composite
def pods(draw: st.DrawFn) -> list[Manifest]:
    names = st.lists(st.sampled_from([f"c{i}" for i in range(6)]), min_size=1, max_size=3, unique=True)
    return [pod_with_volumes(f"p{i}", *draw(names)) for i in range(6)]


def photograph(cluster: Cluster) -> object:
    """Everything that is reserved, and every pod's answers under it."""
    volumes = cluster.volumes
    free = {name: table.free.tolist() for name, table in volumes.matching._classes.items()}
    answers = [cluster.refusals(VolumeBinding, f"p{i}") for i in range(6)]
    use = volumes.use()
    counts = {driver: count.tolist() for driver, count in use.count.items() if count.any()}
    claims = volumes._users, volumes._claims_of
    return deepcopy((volumes.assumed, claims, free, use.users, use.attached, counts, answers))


@examples(60)
@given(pods(), st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 1)), max_size=14))
def test_what_is_reserved_after_moves_and_undos_is_what_the_moves_left_reserve(
    made: list[Manifest], steps: list[tuple[bool, int, int]]
) -> None:
    world = (*NODES, LOCAL, storage_class("fast", "csi"), *OFFERED, *CLAIMS, *made)
    cluster = Cluster(*world)
    statement = cluster.session.statement()
    left: list[tuple[str, int]] = []
    for undo, number, where in steps:
        name = f"p{number}"
        if undo and left:
            left.pop()
            statement.rollback(len(left))
        elif name not in [n for n, _ in left] and cluster.state.nodes.names[where] in cluster.taken_by(
            VolumeBinding, name
        ):
            statement.allocate([cluster.task(name)], [where])
            left.append((name, where))
    fresh = Cluster(*world)
    again = fresh.session.statement()
    for name, where in left:
        again.allocate([fresh.task(name)], [where])
    assert photograph(cluster) == photograph(fresh)
