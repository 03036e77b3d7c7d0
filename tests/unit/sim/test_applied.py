"""Applied manifests keep what the cluster wrote into the objects."""

from __future__ import annotations

from builders.files import manifests, replica_set
from builders.manifests import Manifest, node, pod, queue
from muster.cluster.manifests import Manifests
from muster.engine.core.state import Objects
from muster.model.core import Node, Pod
from muster.sim.applied import changes_between, overlaid, submitted


def applied(there: Manifests, *documents: Manifest, namespace: str = "") -> tuple[Objects, list[tuple[str, str, bool]]]:
    new = submitted(manifests(*documents).objects, 100.0, namespace)
    after = overlaid(there.objects, new)
    return after, [(c.kind, c.name, c.created) for c in changes_between(there.objects, after, new)]


def test_a_new_object_is_created_now_and_an_equal_one_is_unchanged() -> None:
    there = manifests(queue("a", weight=2), node())
    after, changes = applied(there, queue("a", weight=2), pod("p"))
    assert changes == [("Pod", "default/p", True)]
    assert after["Pod"]["default/p"].metadata.creation_timestamp == "1970-01-01T00:01:40Z"


def test_a_changed_field_is_reported_as_a_merge_patch() -> None:
    there = manifests(queue("a", weight=2))
    new = submitted(manifests(queue("a", weight=4)).objects, 100.0)
    (change,) = changes_between(there.objects, overlaid(there.objects, new), new)
    assert change.to_dict() == {"kind": "Queue", "name": "a", "change": "changed", "fields": {"spec": {"weight": 4}}}


def test_a_pod_keeps_its_node_and_a_node_its_status() -> None:
    there = manifests(node(), pod("p", on="n1"))
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": True}}
    written = {**pod("p"), "status": {}}
    after, changes = applied(there, bare, written)
    kept, changed = after["Pod"]["default/p"], after["Node"]["n1"]
    assert isinstance(kept, Pod) and isinstance(changed, Node)
    assert kept.spec.node_name == "n1" and kept.status.phase == "Running"
    assert changed.spec.unschedulable and changed.status.allocatable["cpu"] == "8"
    assert changes == [("Node", "n1", False)]


def test_a_template_with_defaults_of_the_api_server_is_the_same_template() -> None:
    live = replica_set("web", 3, pod("web", terminationGracePeriodSeconds=30, priority=0))
    there = manifests({**live, "metadata": {**live["metadata"], "resourceVersion": "7", "labels": {"added": "yes"}}})
    short = replica_set("web", 3, pod("web", container={"command": ["run"]}))
    del short["spec"]["replicas"]
    assert applied(there, short)[1] == []
    assert applied(there, replica_set("web", 3, pod("web", cpu=2)))[1] == [("ReplicaSet", "default/web", False)]


def test_objects_that_name_no_namespace_come_into_the_given_one() -> None:
    after, changes = applied(manifests(node()), pod("p"), pod("q", namespace="other"), queue("a"), namespace="team")
    assert [name for _, name, _ in changes] == ["other/q", "team/p", "a"]
    assert after["Pod"]["team/p"].metadata.uid == "team/p"
