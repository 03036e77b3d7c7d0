"""What-if changes: they do what they say to copies, and a wrong name is refused with the nearest one."""

from __future__ import annotations

import pytest

from builders.manifests import manifest, node, pod, queue
from muster.cluster.manifests import Manifests
from muster.model.core import Node, Pod
from muster.model.finding import InputError
from muster.model.kinds import plain
from muster.model.scheduling import Queue
from muster.sim.changes import Changes, changed
from muster.sim.inputs import read_cluster

GPU = "nvidia.com/gpu"


def cluster() -> Manifests:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
    owned = {"apiVersion": "apps/v1", "controller": True, "uid": "u"}
    by_daemons = pod("agent", on="n1", meta={"ownerReferences": [{**owned, "kind": "DaemonSet", "name": "agent"}]})
    by_set = pod("web-1", on="n2", meta={"ownerReferences": [{**owned, "kind": "ReplicaSet", "name": "web"}]})
    return read_cluster([
        node("n1", cpu=4, labels={"kubernetes.io/hostname": "n1", "rack": "r1"}),
        node("n2.example.com", cpu=4, resources={GPU: 8}),
        node("n2", cpu=4),
        queue("research", weight=1, capability={"cpu": 4, GPU: 8}),
        pod("busy", on="n1"), by_daemons, by_set,
        manifest("apps/v1", "ReplicaSet", "web", spec={
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}},
        }),
        manifest("groupmanagement.kubeedge.io/v1alpha1", "NodeGroup", "edge", spec={"nodes": ["n1"]}),
        manifest("topology.volcano.sh/v1alpha1", "HyperNode", "s0", spec={"tier": 1, "members": [member]}),
    ])  # fmt: skip


def test_fields_are_set_with_their_types() -> None:
    before = cluster()
    texts = (
        "queue/research.spec.weight=4", f"queue/research.spec.capability.{GPU}=2", "node/n1.metadata.labels.rack=7",
        f"node/n2.example.com.status.allocatable.{GPU}=16", "Node/n1.spec.taints=[{key: a, effect: NoSchedule}]",
        "node/n1.spec.taints[0].value=b", "queue/research.spec.capability.cpu=null",
    )  # fmt: skip
    after = changed(before, Changes(fields=texts))
    assert after.of(Queue)["research"].spec.weight == 4
    assert after.of(Queue)["research"].spec.capability == {GPU: 2}
    assert after.of(Node)["n1"].metadata.labels["rack"] == "7"
    assert after.of(Node)["n2.example.com"].status.allocatable[GPU] == 16
    assert plain(after.of(Node)["n1"])["spec"] == {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    assert before.of(Queue)["research"].spec.weight == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("queue/reserch.spec.weight=4", "there is no Queue reserch: did you mean research?"),
        ("quue/research.spec.weight=4", "no object of the kind quue: did you mean queue?"),
        ("queue/research.spec.wieght=4", "spec.wieght: there is no such field: did you mean weight?"),
        ("queue/research.spec.weight=x", "spec.weight: must be a whole number"),
        ("queue/research.spec.capability.cpu=-5", "-5 is negative"),
        ("queue/research.spec.weight", "there is no value"),
        ("queue/research=4", "there is no field"),
        ("queue=4", "there is no name"),
        ("node/n1.spec.taints[3].key=a", "is a list of 0"),
        ("node/n1.metadata.name=n9", "cannot be changed"),
        ("node/n1.spec.unschedulable.now=true", "has no fields"),
        ("node/n1.spec.taints=[", "is not YAML"),
    ],
)
def test_what_cannot_be_set_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        changed(cluster(), Changes(fields=(text,)))
    assert refused.value.message.startswith(f"--set {text}: ")
    assert why in refused.value.message


def test_a_clone_is_a_member_where_its_original_is_listed() -> None:
    after = changed(cluster(), Changes(clones=("n1",), times=2))
    made = after.of(Node)["n1-clone-2"]
    assert made.metadata.uid == "n1-clone-2"
    assert made.metadata.labels == {"kubernetes.io/hostname": "n1-clone-2", "rack": "r1"}
    assert plain(after.objects["NodeGroup"]["edge"])["spec"]["nodes"] == ["n1", "n1-clone-1", "n1-clone-2"]
    assert len(plain(after.objects["HyperNode"]["s0"])["spec"]["members"]) == 3
    again = changed(after, Changes(clones=("n1",)))
    assert "n1-clone-3" in again.of(Node)


def test_the_pods_of_a_removed_node_wait_and_those_of_its_daemons_are_gone() -> None:
    after = changed(cluster(), Changes(removals=("node/n1",)))
    assert "n1" not in after.of(Node)
    assert after.of(Pod)["default/busy"].spec.node_name == ""
    assert "default/agent" not in after.of(Pod)


def test_what_an_object_owns_is_removed_with_it() -> None:
    after = changed(cluster(), Changes(removals=("replicaset/default/web",)))
    assert "default/web-1" not in after.of(Pod)
    assert "default/busy" in after.of(Pod)


def test_a_cordoned_node_is_unschedulable() -> None:
    assert changed(cluster(), Changes(cordons=("n2",))).of(Node)["n2"].spec.unschedulable


@pytest.mark.parametrize("changes", [Changes(cordons=("n3",)), Changes(clones=("n3",)), Changes(removals=("node/n3",))])
def test_an_unknown_node_is_refused_with_the_known_ones(changes: Changes) -> None:
    with pytest.raises(InputError, match=r"there is no [nN]ode n3: (did you mean|known: n1, n2)"):
        changed(cluster(), changes)


def test_changes_read_as_they_are_typed() -> None:
    changes = Changes(clones=("n1",), times=2, fields=("a/b.c=1",), cordons=("n2",), removals=("node/n3",))
    assert str(changes) == "--clone-node n1 --times 2 --set a/b.c=1 --cordon n2 --remove node/n3"
    assert changes and not Changes()
