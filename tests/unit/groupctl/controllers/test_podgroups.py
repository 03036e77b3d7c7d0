"""PodGroups written for pods that name none."""

from __future__ import annotations

from builders.node_groups import store_of, thing
from muster.cluster.embedded import EmbeddedCluster
from muster.cluster.memory import MemoryStore
from muster.engine.core.podgroups import GROUP, QUEUE_NAME
from muster.engine.core.reading import ADMITTED, ALLOCATION_GATE
from muster.groupctl.controllers.pod_group_service import QueueGateController
from muster.groupctl.controllers.podgroups import PodGroupController
from muster.model.batch import Deployment, Job, ReplicaSet, StatefulSet
from muster.model.core import Pod
from muster.model.meta import Object, key
from muster.model.scheduling import PodGroup
from muster.workloads import MIN_MEMBER

NAMES = ("muster",)


def template(**meta: object) -> dict[str, object]:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "metadata": {"labels": {"app": "web"}, **meta},
        "spec": {"schedulerName": "muster", "priorityClassName": "high", "containers": [container]},
    }


def workload(version: str, kind: str, members: int, **spec: object) -> Object:
    annotations = {MIN_MEMBER: str(members)}
    selector = {"matchLabels": {"app": "web"}}
    return thing(version, kind, "web", {"annotations": annotations}, spec={
        "selector": selector, "template": template(annotations={QUEUE_NAME: "red"}), **spec
    })  # fmt: skip


def alone(name: str, scheduler: str = "muster", **more: object) -> Object:
    return thing("v1", "Pod", name, spec={"schedulerName": scheduler, "containers": [], **more})


def settled(store: MemoryStore) -> PodGroupController:
    controller = PodGroupController(store, NAMES)
    for _ in range(5):
        controller.run()
    return controller


def made_by(obj: Object) -> EmbeddedCluster:
    return EmbeddedCluster({type(obj).__name__: {key(obj): obj}}, 1000.0)


def test_a_deployment_gets_the_group_that_its_annotation_asks_for() -> None:
    cluster = made_by(workload("apps/v1", "Deployment", 3, replicas=4))
    settled(cluster.store)
    (group,) = cluster.store.of(PodGroup).values()
    (owner,) = cluster.store.of(ReplicaSet).values()
    assert group.metadata.name == f"podgroup-{owner.metadata.uid}".replace("/", "-")
    assert [(o.kind, o.uid) for o in group.metadata.owner_references] == [("ReplicaSet", owner.metadata.uid)]
    spec = group.spec
    assert (spec.min_member, spec.queue, spec.priority_class_name) == (3, "red", "high")
    assert spec.min_resources == {"cpu": "1500m"}
    named = {pod.metadata.annotations.get(GROUP) for pod in cluster.store.of(Pod).values()}
    assert named == {group.metadata.name} and len(cluster.store.of(Pod)) == 4


def test_jobs_and_stateful_sets_get_theirs() -> None:
    for obj in (
        workload("batch/v1", "Job", 2, parallelism=2, completions=2),
        workload("apps/v1", "StatefulSet", 2, replicas=2, podManagementPolicy="Parallel"),
    ):
        store = made_by(obj).store
        settled(store)
        assert [group.spec.min_member for group in store.of(PodGroup).values()] == [2]


def test_a_pod_of_its_own_has_a_group_of_one_and_others_are_left_alone() -> None:
    named = thing("v1", "Pod", "named", {"annotations": {GROUP: "mine"}}, spec={"schedulerName": "muster"})
    ended = thing("v1", "Pod", "ended", spec={"schedulerName": "muster"}, status={"phase": "Succeeded"})
    store = store_of(alone("a"), alone("theirs", "default-scheduler"), named, ended)
    settled(store)
    (group,) = store.of(PodGroup).values()
    assert (group.metadata.name, group.spec.min_member) == ("podgroup-uid-pod-a", 1)
    assert [(o.kind, o.name) for o in group.metadata.owner_references] == [("Pod", "a")]
    assert [p.metadata.annotations.get(GROUP) for p in store.of(Pod).values()] == [
        "podgroup-uid-pod-a", None, "mine", None
    ]  # fmt: skip


def test_what_is_right_is_not_written_again() -> None:
    cluster = made_by(workload("apps/v1", "Deployment", 3, replicas=4))
    settled(cluster.store)
    version = cluster.store.version
    settled(cluster.store)
    assert cluster.store.version == version


def test_the_minimum_follows_the_annotation() -> None:
    cluster = made_by(workload("apps/v1", "Deployment", 3, replicas=4))
    controller = settled(cluster.store)
    cluster.store.patch(Deployment, "default/web", {"metadata": {"annotations": {MIN_MEMBER: "2"}}})
    cluster.step()
    controller.run()
    (group,) = cluster.store.of(PodGroup).values()
    assert (group.spec.min_member, group.spec.min_resources) == (2, {"cpu": "1"})


def test_a_group_that_was_deleted_is_written_again_while_its_pods_are_there() -> None:
    store = store_of(alone("a"))
    controller = settled(store)
    store.delete(PodGroup, "default/podgroup-uid-pod-a")
    controller.run()
    assert list(store.of(PodGroup)) == ["default/podgroup-uid-pod-a"]


def test_the_group_of_what_was_scaled_to_nothing_is_deleted() -> None:
    cluster = made_by(workload("apps/v1", "StatefulSet", 2, replicas=2, podManagementPolicy="Parallel"))
    cluster.join(PodGroupController(cluster.store, NAMES))
    assert cluster.store.of(PodGroup)
    cluster.store.patch(StatefulSet, "default/web", {"spec": {"replicas": 0}})
    cluster.step()
    while (at := cluster.next_time()) is not None:
        cluster.advance(at)
    assert not cluster.store.of(Pod) and not cluster.store.of(PodGroup)


def test_an_owner_that_is_not_known_yet_is_waited_for() -> None:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "late", "uid": "uid-job-late", "controller": True}
    pod = thing("v1", "Pod", "early", {"ownerReferences": [reference]}, spec={"schedulerName": "muster"})
    store = store_of(pod)
    controller = settled(store)
    assert not store.of(PodGroup)
    late = thing("batch/v1", "Job", "late", {"annotations": {MIN_MEMBER: "7"}})
    assert isinstance(late, Job)
    store.create(late)
    controller.run()
    assert [group.spec.min_member for group in store.of(PodGroup).values()] == [7]


def test_the_queues_gate_opens_when_the_scheduler_has_admitted_the_pod() -> None:
    gates = [{"name": ALLOCATION_GATE}]
    asking = thing("v1", "Pod", "a", {"annotations": {ALLOCATION_GATE: "true"}}, spec={"schedulingGates": gates})
    store = store_of(asking)
    controller = QueueGateController(store)
    assert not controller.run()
    store.patch(Pod, "default/a", {"metadata": {"annotations": {ADMITTED: "true"}}})
    assert controller.run()
    assert store.get(Pod, "default/a").spec.scheduling_gates == []
