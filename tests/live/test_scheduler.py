"""`muster scheduler` on a real API server, with no more rights than its own account has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.manifests import group, priority_class, queue
from live.api import Api, Plain, Refused, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import (
    Scheduler,
    all_placed,
    assert_sound,
    condition,
    create_all,
    events,
    gang,
    muster_pod,
    placed,
    read_group,
    stays_unplaced,
    volume_of,
)

EVICTS = """
actions: "enqueue, allocate, reclaim, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""

pytestmark = pytest.mark.usefixtures("crds")


@pytest.fixture
def objects(api: Api) -> Iterator[list[Plain]]:
    """What is put here is created at once by `make`, and deleted when the test ends."""
    made: list[Plain] = []
    yield made
    for obj in made:
        try:
            api.delete(place(obj))
        except Refused as refused:
            if refused.status != 404:
                raise


def test_gangs_of_several_sizes_are_whole_or_absent(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(4)
    with Scheduler(scheduler_kubeconfig) as muster:
        for size in (1, 2, 5, 9):
            all_placed(api, namespace, gang(api, namespace, f"g{size}", size))
        large = gang(api, namespace, "large", 40)
        message = until("a reason", lambda: condition(api, namespace, "large-0") or None)
        stays_unplaced(api, namespace, large)
        assert message["status"] == "False" and message["reason"] == "Unschedulable"
        assert "tasks in gang unschedulable" in message["message"]
        until("its event", lambda: events(api, namespace, "large", "Unschedulable"))
        assert not events(api, namespace, "large-0", "FailedScheduling")
        until("an event of the bound", lambda: "5 pods" in str(events(api, namespace, "g5", "Scheduled")))
        assert not events(api, namespace, "g5-0", "Scheduled")
        until("phase Running", lambda: read_group(api, namespace, "g9")["status"]["phase"] == "Running")
        assert any(c["type"] == "Unschedulable" for c in read_group(api, namespace, "large")["status"]["conditions"])
        assert_sound(api, namespace)
        assert muster.metric("muster_binds_total") == 17
        assert muster.probe("/healthz") == (200, "ok")
        assert muster.stop() == 0


def test_pods_without_a_group_and_pods_that_come_later(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1)
    with Scheduler(scheduler_kubeconfig):
        api.create(muster_pod(namespace, "alone"))
        all_placed(api, namespace, ["alone"])
        api.create(muster_pod(namespace, "big", cpu="20"))
        assert until("a reason", lambda: condition(api, namespace, "big").get("message"))
        other = muster_pod(namespace, "theirs")
        other["spec"]["schedulerName"] = "somebody-else"
        api.create(other)
        make_nodes(1, prefix="large", resources={"cpu": "32"})
        assert all_placed(api, namespace, ["big"])["big"].startswith("large")
        assert "theirs" not in placed(api, namespace)


def test_it_is_ready_only_once_it_has_read_the_cluster(
    api: Api, namespace: str, control_plane: ControlPlane, rights: None, objects: list[Plain]
) -> None:
    """Of one that may not read it yet: that takes as long as one likes."""
    muster = Scheduler(control_plane.kubeconfig_of(namespace, "default"))
    with ExitStack() as stack:
        stack.callback(muster.stop)
        muster.start(wait=False)
        for _ in range(10):
            status, text = muster.probe("/readyz")
            assert status == 503 and text.startswith("the cluster has not been read yet: waits for "), text
            assert muster.probe("/healthz")[0] == 200
            time.sleep(0.2)
        objects.append(api.create({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-scheduler"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        }))  # fmt: skip
        until("ready", lambda: muster.probe("/readyz")[0] == 200, 60)
        until("its log", lambda: any(entry["msg"] == "cluster read" for entry in muster.log()))


def test_a_queue_takes_back_what_it_deserves(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, objects: list[Plain]
) -> None:
    make_nodes(2)
    for name in ("red", "blue"):
        objects.append(api.create(queue(f"{namespace}-{name}", weight=1)))
    red, blue = f"{namespace}-red", f"{namespace}-blue"
    with Scheduler(scheduler_kubeconfig, config=EVICTS):
        all_placed(api, namespace, gang(api, namespace, "first", 16, 1, queue=red))
        path = f"/apis/scheduling.volcano.sh/v1beta1/queues/{red}"
        until("what red holds", lambda: api.get(path).get("status", {}).get("allocated", {}).get("cpu") == "16")
        second = gang(api, namespace, "second", 4, queue=blue)
        all_placed(api, namespace, second, 40)
        gone = [e for e in api.list(f"/api/v1/namespaces/{namespace}/events") if e["reason"] == "Evict"]
        assert gone and "reclaim" in gone[0]["message"]
        assert_sound(api, namespace)


def test_a_pod_of_higher_priority_gets_capacity_and_both_sides_have_the_reason(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, objects: list[Plain]
) -> None:
    make_nodes(1)
    objects.append(api.create(priority_class(f"{namespace}-high", 1000)))
    with Scheduler(scheduler_kubeconfig, config=EVICTS):
        all_placed(api, namespace, gang(api, namespace, "low", 2, 0, cpu="4"))
        api.create(muster_pod(namespace, "high", cpu="8", priorityClassName=f"{namespace}-high"))
        all_placed(api, namespace, ["high"], 40)
        [reported] = until("the eviction's event", lambda: events(api, namespace, "low", "Evict"))
        assert reported["message"].startswith(f"2 pods evicted by preempt to make room for {namespace}/high: ")
        assert any("low-" in e["message"] for e in events(api, namespace, "high", "Evicting"))
        assert_sound(api, namespace)


def test_a_budget_keeps_its_pods_whether_or_not_pdb_is_configured(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, objects: list[Plain]
) -> None:
    make_nodes(1)
    objects.append(api.create(priority_class(f"{namespace}-high", 1000)))
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": namespace},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"kept": "yes"}}},
    }  # fmt: skip
    api.create(budget)
    with Scheduler(scheduler_kubeconfig, config=EVICTS):
        low = gang(api, namespace, "low", 2, 0, cpu="4", labels={"kept": "yes"})
        all_placed(api, namespace, low)
        until("the budget counted", lambda: api.get(place(budget))["status"].get("currentHealthy") == 2)
        api.create(muster_pod(namespace, "high", cpu="8", priorityClassName=f"{namespace}-high"))
        stays_unplaced(api, namespace, ["high"], 3)
        assert set(low) <= placed(api, namespace).keys()
        api.delete(place(budget))
        all_placed(api, namespace, ["high"], 40)


def test_queues_stay_in_their_node_groups(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, objects: list[Plain]
) -> None:
    make_nodes(2, prefix="gpu", labels={"volcano.sh/nodegroup-name": "gpu"})
    make_nodes(2, prefix="cpu", labels={"volcano.sh/nodegroup-name": "cpu"})
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["gpu"]}}
    objects.append(api.create(queue(f"{namespace}-gpu", weight=1, affinity=affinity)))
    config = EVICTS.replace("{name: nodeorder}", "{name: nodegroup}, {name: nodeorder}")
    with Scheduler(scheduler_kubeconfig, config=config) as muster:
        where = all_placed(api, namespace, gang(api, namespace, "g", 6, queue=f"{namespace}-gpu"))
        assert all(node.startswith("gpu") for node in where.values())
        until("the figures", lambda: muster.metric("volcano_queue_nodegroup_allocated_milli_cpu") == 6000)


def test_chips_are_on_the_pod_when_it_is_bound(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    labels = {"host-arch": "huawei-arm", "accelerator": "huawei-Ascend910", "accelerator-type": "module"}
    node = make_nodes(1, prefix="npu", labels=labels, resources={"huawei.com/Ascend910": "8"})[0]
    chips = ",".join(f"Ascend910-{i}" for i in range(8))
    notes = {"huawei.com/Ascend910": chips, "huawei.com/Ascend910-Unhealthy": "",
             "huawei.com/Ascend910-NetworkUnhealthy": ""}  # fmt: skip
    api.merge(place(node), {"metadata": {"annotations": notes}})
    with Scheduler(scheduler_kubeconfig):
        names = []
        for ring in ("left", "right"):
            names += gang(api, namespace, ring, 1, limits={"huawei.com/Ascend910": "4"},
                          nodeSelector={"host-arch": "huawei-arm"})  # fmt: skip
        all_placed(api, namespace, names)
        given = []
        for name in names:
            meta = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["metadata"]
            given.append(set(meta["annotations"]["huawei.com/Ascend910"].split(",")))
            assert meta["annotations"]["predicate-time"].isdigit()
        assert len(given[0]) == 4 and not given[0] & given[1]


@pytest.mark.parametrize("reason", ["OutOfcpu", "UnexpectedAdmissionError"])
def test_a_kubelets_rejection_is_heeded(
    reason: str, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(2)
    with Scheduler(scheduler_kubeconfig) as muster:
        api.create(muster_pod(namespace, "unwanted", annotations={"live.muster.test/refused": reason}))
        where = all_placed(api, namespace, ["unwanted"])["unwanted"]
        until("the rejection counted", lambda: muster.metric("muster_kubelet_rejections_total") == 1)
        api.create(muster_pod(namespace, "next", nodeSelector={"kubernetes.io/hostname": where}))
        api.create(muster_pod(namespace, "same"))
        assert all_placed(api, namespace, ["same"])["same"] != where


def test_a_pod_bound_by_somebody_else_and_a_node_that_vanishes(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(2)
    with Scheduler(scheduler_kubeconfig) as muster:
        made = api.create(muster_pod(namespace, "taken", cpu="6", schedulingGates=[{"name": "wait"}]))
        ungated = {**made, "spec": {**made["spec"], "schedulingGates": []}}
        api.update(ungated)
        try:
            api.bind(made, "n1")
        except Refused as refused:
            assert refused.status == 409
        where = all_placed(api, namespace, ["taken"])["taken"]
        left = "n2" if where == "n1" else "n1"
        api.create(muster_pod(namespace, "second", cpu="6"))
        assert all_placed(api, namespace, ["second"])["second"] == left
        api.delete(f"/api/v1/nodes/{left}")
        api.create(muster_pod(namespace, "third", cpu="6"))
        assert until("a reason", lambda: condition(api, namespace, "third").get("message"))
        assert "third" not in placed(api, namespace)
        make_nodes(1, prefix="new", resources={"cpu": "32"})
        assert all_placed(api, namespace, ["third"])["third"].startswith("new")
        assert_sound(api, namespace)
        assert muster.metric("muster_faults_total") == 0


def test_a_claim_is_bound_where_the_pod_goes_and_then_the_pod(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, objects: list[Plain]
) -> None:
    make_nodes(2)
    late, disk = f"{namespace}-late", f"{namespace}-disk"
    objects.append(api.create({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": late},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    }))  # fmt: skip
    on_second = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
    objects.append(api.create({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": disk},
        "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": late,
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_second]}]}},
        },
    }))  # fmt: skip
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": late,
                 "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    api.create(claim)
    with Scheduler(scheduler_kubeconfig):
        api.create(muster_pod(namespace, "a", volumes=[volume_of("data")]))
        assert all_placed(api, namespace, ["a"], 40)["a"] == "n2"
        assert api.get(place(claim))["spec"]["volumeName"] == disk
        api.create(muster_pod(namespace, "never", volumes=[volume_of("none")]))
        until("a reason", lambda: '"none" not found' in condition(api, namespace, "never").get("message", ""))


def test_a_gang_stays_in_one_rack(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, objects: list[Plain]
) -> None:
    label = "cloud.provider.com/topology-rack"
    for rack, count in (("r1", 1), ("r2", 2), ("r3", 1)):
        make_nodes(count, prefix=rack, labels={label: rack}, resources={"cpu": "4"})
    objects.append(api.create({
        "apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "Topology", "metadata": {"name": namespace},
        "spec": {"levels": [{"nodeLabel": label}]},
    }))  # fmt: skip
    places = EVICTS.replace("reclaim, preempt, ", "")
    config = places.replace("{name: nodeorder}", "{name: nodeorder}, {name: topology}")
    notes = {"kai.scheduler/topology": namespace, "kai.scheduler/topology-required-placement": label}
    with Scheduler(scheduler_kubeconfig, config=config):
        wide = group("wide", "default", namespace=namespace, minMember=8)
        wide["metadata"]["annotations"] = notes
        api.create(wide)
        names = [f"wide-{i}" for i in range(8)]
        create_all(api, [muster_pod(namespace, name, "wide") for name in names])
        assert {node[:2] for node in all_placed(api, namespace, names).values()} == {"r2"}
        wider = group("wider", "default", namespace=namespace, minMember=5)
        wider["metadata"]["annotations"] = notes
        api.create(wider)
        others = [f"wider-{i}" for i in range(5)]
        create_all(api, [muster_pod(namespace, name, "wider") for name in others])
        until("a reason", lambda: condition(api, namespace, "wider-0").get("message"))
        stays_unplaced(api, namespace, others)
        assert_sound(api, namespace)
