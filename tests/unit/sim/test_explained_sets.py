"""`explain --sets`: every set that was tried, and every one that was not worth it, with why."""

from __future__ import annotations

from builders.manifests import queue, state_of
from builders.racks import RACK, ZONE, gang, gpu_node, made, member, members, scheduler, topology
from muster.model.meta import Object
from muster.sim.explain import SetTrace, sets_tried


def tried(*objects: Object) -> list[SetTrace] | None:
    session = scheduler().session(state_of(queue(), topology(ZONE, RACK), *objects), 0.0)
    before = session.state.nodes.rows.copy()
    found = sets_tried(session, session.jobs["d/job"])
    assert (session.state.nodes.rows == before).all()
    return found


def rack(name: str, *gpus: int) -> list[Object]:
    return [gpu_node(f"{name}-{i}", gpus=g, rack=name, zone="z") for i, g in enumerate(gpus)]


def test_sets_stand_in_the_order_of_trial() -> None:
    found = tried(*rack("a", 4), *rack("b", 2), *rack("c", 1), gang("job", 2, RACK), *members("job", 2))
    assert found is not None
    assert [(one.label, one.holds) for one in found] == [("tree z/b", True), ("tree z/a", True), ("tree z/c", False)]
    assert found[2].reason.startswith("not tried: has room for 1 of 2 pods")


def test_a_set_that_failed_says_for_which_pod_and_why() -> None:
    selector = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "affinity": apart}
    reported = {"namespace": "d", "labels": {"app": "x"}, "annotations": {"scheduling.k8s.io/group-name": "job"}}
    pods = [made("v1", "Pod", {"name": f"job-{i}", **reported}, spec=spec) for i in (0, 1)]
    found = tried(*rack("a", 8), *rack("b", 8, 8), gang("job", 2, RACK), *pods)
    assert found is not None
    assert [(one.label, one.placed, one.holds) for one in found] == [("tree z/a", 1, False), ("tree z/b", 2, True)]
    assert found[0].reason == "d/job-1: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."


def test_sub_groups_report_how_their_own_sets_did() -> None:
    near = {"topology": "tree", "requiredTopologyLevel": RACK}
    subs = [{"name": part, "minMember": 2, "topologyConstraint": near} for part in ("l", "r")]
    pods = [member("job", f"{part}{i}", part=part) for part in ("l", "r") for i in (0, 1)]
    found = tried(*rack("a", 2), *rack("b", 1, 1, 0), *rack("c", 1), gang("job", 4, ZONE, subGroups=subs), *pods)
    assert found is not None and found[0].holds
    found = tried(*rack("a", 2), *rack("b", 1), *rack("c", 1), gang("job", 4, ZONE, subGroups=subs), *pods)
    assert found is not None and not found[0].holds
    assert found[0].reason == "tree z/a holds sub-group l; no set holds sub-group r"


def test_nothing_divides_the_nodes_of_a_plain_group() -> None:
    assert tried(*rack("a", 2), gang("job", 2), *members("job", 2)) is None
