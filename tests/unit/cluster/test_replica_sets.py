"""ReplicaSets and ReplicationControllers: so many pods, no more; the gone are made anew."""

from __future__ import annotations

from builders.embedded import bind_all, cluster, owned_by, pods_of, selector, template
from builders.manifests import node, pod
from muster.model.batch import ReplicaSet, ReplicaSetSpec, ReplicationController, ReplicationControllerSpec
from muster.model.core import Pod
from muster.model.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from muster.model.pod_states import is_active


def replica_set(replicas: int, name: str = "web") -> ReplicaSet:
    spec = ReplicaSetSpec(replicas=replicas, selector=selector(), template=template())
    return ReplicaSet(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def test_as_many_pods_are_made_as_are_asked_for_with_the_same_names_every_time() -> None:
    first, second = cluster(replica_set(3)), cluster(replica_set(3))
    assert first.store.everything() == second.store.everything()
    made = pods_of(first)
    assert len(made) == 3
    for name, found in made.items():
        owner = found.metadata.owner_references[0]
        assert name.startswith("web-")
        assert (owner.kind, owner.name, owner.uid, owner.controller) == ("ReplicaSet", "web", "default/web", True)
        assert found.metadata.labels == {"app": "web"}
        assert found.metadata.uid == f"default/{name}"
        assert found.metadata.creation_timestamp == "1970-01-01T00:16:40Z"


def test_pods_in_the_input_count_by_reference_or_by_selector() -> None:
    c = cluster(replica_set(3), pod("mine", meta=owned_by("ReplicaSet/web")), pod("orphan", labels={"app": "web"}))
    assert len(pods_of(c)) == 3
    assert pods_of(c)["orphan"].metadata.owner_references[0].name == "web"


def test_a_pod_of_somebody_else_is_not_adopted() -> None:
    other = pod("other", labels={"app": "web"}, meta=owned_by("ReplicaSet/elsewhere"))
    assert len(pods_of(cluster(replica_set(1), other))) == 2


def test_surplus_pods_go_and_those_without_a_node_go_first() -> None:
    running = [pod(f"run-{i}", on="n", phase="Running", labels={"app": "web"}) for i in range(2)]
    c = cluster(node("n"), replica_set(2), *running, pod("waits", labels={"app": "web"}))
    assert sorted(pods_of(c)) == ["run-0", "run-1"]


def test_an_evicted_pod_is_made_anew_under_another_name() -> None:
    c = cluster(node("n"), replica_set(2))
    bind_all(c, "n")
    victim = sorted(pods_of(c))[0]
    c.store.evict(f"default/{victim}", by="default/x", rule="preempt")
    c.step()
    alive = [name for name, p in pods_of(c).items() if is_active(p)]
    assert len(pods_of(c)) == 3
    assert len(alive) == 2 and victim not in alive
    c.advance(1030.0)
    assert sorted(pods_of(c)) == sorted(alive)


def test_status_counts_what_is_there_and_ready() -> None:
    c = cluster(node("n"), replica_set(2))
    bind_all(c, "n")
    status = c.store.get(ReplicaSet, "default/web").status
    assert (status.replicas, status.ready_replicas) == (2, 2)


def test_a_replication_controller_without_selector_goes_by_its_template() -> None:
    spec = ReplicationControllerSpec(replicas=2, template=template())
    rc = ReplicationController(metadata=ObjectMeta(name="rc", namespace="default"), spec=spec)
    c = cluster(rc, pod("old", labels={"app": "web"}))
    assert len(pods_of(c)) == 2
    assert "old" in pods_of(c)


def test_a_workload_that_cannot_be_read_does_not_stop_the_others() -> None:
    bad = replica_set(1, "bad")
    odd = LabelSelectorRequirement(key="a", operator="Like", values=["b"])
    bad.spec.selector = LabelSelector(match_expressions=[odd])
    c = cluster(bad, replica_set(1, "good"), pod("stray"))
    assert [name for name in pods_of(c) if name.startswith("good-")]
    assert [note.reason for note in c.store.events] == ["FailedCreate"]


def test_what_an_owner_made_goes_with_it() -> None:
    c = cluster(node("n"), replica_set(2), pod("alone"))
    bind_all(c, "n")
    c.store.delete(ReplicaSet, "default/web")
    c.step()
    c.advance(1030.0)
    assert sorted(p.metadata.name for p in c.store.list(Pod).items) == ["alone"]
