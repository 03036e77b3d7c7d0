"""Pods whose volumes demand the same of a node are one class: the decisions are those of every pod taken by itself. The
usage of volumes is kept from cycle to cycle: it is what a cluster that is read afresh has.
"""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from builders import manifests
from builders.followed_cluster import FollowedCluster
from builders.manifests import Manifest, state_of
from builders.storage_cluster import claim, csi_node, storage_class, volume, zone_node
from muster.config.loader import DEFAULT, load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Batch
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.engine.volumes.usage_record import UsageRecord
from muster.engine.volumes.volume_binder import VolumeBinder, volume_signature
from muster.engine.volumes.volume_claims import VolumeClaims
from muster.plugins.predicates.volumes import VolumeLimits
from strategies.profiles import examples

_ACCESS = st.sampled_from(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])


@st.composite
def clusters(draw: st.DrawFn) -> list[Manifest]:
    """A few nodes in two zones, volumes with and without node rules, and pods that use one or two claims."""
    names = [f"n{i}" for i in range(draw(st.integers(2, 5)))]
    found = [zone_node(name, zone=draw(st.sampled_from("ab"))) for name in names]
    found += [csi_node(name, ebs=draw(st.integers(0, 2))) for name in names if draw(st.integers(0, 3)) == 0]
    found += [storage_class("late"), storage_class("made", "ebs"), storage_class("soon", "ebs", "Immediate")]
    claims = [f"c{i}" for i in range(draw(st.integers(1, 6)))]
    for i, name in enumerate(claims):
        kind = draw(st.sampled_from(["free", "free", "csi", "local", "zone", "late", "made", "soon", "gone"]))
        modes = {"accessModes": [draw(_ACCESS)]}
        if kind in ("late", "made", "soon"):
            found.append(claim(name, kind, **modes))
            continue
        source = {"csi": {"driver": "ebs", "volumeHandle": f"h{i}"}} if kind == "csi" else {}
        made = volume(f"v{i}", at=draw(st.sampled_from(names)) if kind == "local" else "", storage_class="", **source)
        if kind == "zone":
            made["metadata"]["labels"] = {"topology.kubernetes.io/zone": draw(st.sampled_from(["a", "b", "a__b"]))}
        found += [] if kind == "gone" else [made]
        found.append(claim(name, "", volumeName=f"v{i}", **modes))
    found += [volume(f"free-{i}", at=draw(st.sampled_from(names)), storage_class="late") for i in range(2)]
    for i in range(draw(st.integers(2, 10))):
        used = draw(st.lists(st.sampled_from([*claims, "absent"]), min_size=1, max_size=2, unique=True))
        listed = [{"name": f"d{k}", "persistentVolumeClaim": {"claimName": one}} for k, one in enumerate(used)]
        on = draw(st.sampled_from(["", "", "", *names]))
        found.append(manifests.pod(f"p{i}", draw(st.sampled_from(["", "g"])), on, volumes=listed))
    return [*found, manifests.group("g", minMember=draw(st.integers(1, 3)))]


def decide(given_: list[Manifest]) -> Plan:
    config, _ = load(DEFAULT.replace("allocate, backfill", "allocate, backfill, preempt"), "test", known())
    return Scheduler(config).cycle(state_of(*given_), 0.0)


@given(clusters())
@examples(200)
def test_pods_of_one_class_are_decided_as_each_by_itself(cluster: list[Manifest]) -> None:
    found = decide(cluster)
    by_claims = {
        "_node_rules": lambda binder, claims: None,
        "node_signature": lambda binder, task: volume_signature(task),
    }
    always = patch.object(VolumeLimits, "batch", return_value=Batch.COLUMNS)
    with patch.multiple(VolumeBinder, **by_claims), always:
        assert found == decide(cluster)


def counted(state: State, record: UsageRecord) -> list[dict[str, Any]]:
    """What pods use, and what those use that do not terminate."""
    usages = record.update(state, VolumeClaims(state.objects), lambda shape: bool(shape.spec.volumes))
    return [
        {
            "users": usage.users,
            "disks": usage.disks,
            "attached": usage.attached,
            "count": {driver: count.tolist() for driver, count in usage.count.items() if count.any()},
            "limits": {driver: limit.tolist() for driver, limit in usage.limits().items()},
        }
        for usage in usages
    ]


@given(st.lists(clusters(), min_size=2, max_size=6), st.randoms(use_true_random=False))
@examples(150)
def test_usage_that_followed_changes_is_that_of_a_cluster_read_afresh(
    history: list[list[Manifest]], dice: random.Random
) -> None:
    """Also after cycles, which count what they place and undo it."""
    cluster, config = FollowedCluster(), load(DEFAULT, "test", known())[0]
    lasting = Scheduler(config)
    for i, given_ in enumerate(history):
        for kind, name in sorted(cluster.objects):
            if dice.random() < 0.1:
                cluster.remove(kind, name)
        for one in given_ if i == 0 else [one for one in given_ if dice.random() < 0.4]:
            if one["kind"] == "Pod" and dice.random() < 0.2:
                one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            cluster.put(one)
        cold = cluster.cold_state()
        plan = lasting.cycle(cluster.state, float(i))
        assert plan == Scheduler(config).cycle(cold, float(i))
        assert counted(cluster.state, cluster.state.volume_usage) == counted(cold, UsageRecord())
        cluster.apply(plan)


@given(st.lists(clusters(), min_size=2, max_size=4), st.randoms(use_true_random=False))
@examples(150)
def test_usage_follows_claims_and_volumes_whose_pods_do_not_change(
    history: list[list[Manifest]], dice: random.Random
) -> None:
    cluster, kinds = FollowedCluster(), ("PersistentVolumeClaim", "PersistentVolume")
    for i, given_ in enumerate(history):
        for one in given_:
            if i == 0 or one["kind"] in kinds:
                cluster.put(one)
        for kind, name in sorted(cluster.objects):
            if kind in kinds and dice.random() < 0.1:
                cluster.remove(kind, name)
        cold = cluster.cold_state()
        assert counted(cluster.state, cluster.state.volume_usage) == counted(cold, UsageRecord())
