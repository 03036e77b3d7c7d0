"""Kubernetes' own PodGroups (v1alpha2) on a real control plane of 1.36 with its feature gates on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.manifests import manifest
from live.accounts import account_in
from live.api import Api, Plain, until
from live.conftest import MakeNodes, served
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, condition, muster_pod, placed
from live.native_comparison import create_nodes, placed_by
from live.native_plane import PREEMPT, VERSION, condition_of, native_group, native_plane, native_pod
from muster.model.crd import OURS, PEERS
from oracles.group_placement import placeable


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with native_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Api:
    made = control_plane.api
    for definition in (*OURS, *PEERS):
        made.apply(definition.plain())
        path = f"/apis/{definition.api_version}/{definition.plural}"
        until(f"{path} to be served", lambda path=path: served(made, path))
    return made


def is_so(api: Api, namespace: str, name: str, status: str, type_: str = "PodGroupScheduled") -> Plain | None:
    found = condition_of(api, namespace, name, type_)
    return found if found.get("status") == status else None


def test_a_gang_waits_for_its_pods_and_its_capacity_and_starts_whole(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    """With the least rights: the account of the manifests."""
    make_nodes(1, prefix="g", resources={"cpu": "2"})
    with Scheduler(account_in(control_plane, namespace, "scheduler")) as scheduler:
        api.create(native_pod(namespace, "p-0", "g"))
        until("the reason", lambda: "does not exist" in condition(api, namespace, "p-0").get("message", ""), 30)
        api.create(native_group(namespace, "g", 3))
        api.create(native_pod(namespace, "p-1", "g"))
        until("too few pods", lambda: "valid: 2, min: 3" in condition(api, namespace, "p-0").get("message", ""), 60)
        api.create(native_pod(namespace, "p-2", "g"))
        waiting = until("Unschedulable", lambda: is_so(api, namespace, "g", "False"), 30)
        assert waiting["reason"] == "Unschedulable"
        until("the cause", lambda: "all that the cluster has" in condition_of(api, namespace, "g")["message"], 30)
        assert placed(api, namespace) == {}
        make_nodes(1, prefix="h", resources={"cpu": "2"})
        all_placed(api, namespace, ["p-0", "p-1", "p-2"])
        done = until("Scheduled", lambda: is_so(api, namespace, "g", "True"), 30)
        assert done["reason"] == "Scheduled" and "observedGeneration" not in done  # v1alpha2 has no generation
        assert not scheduler.metric("muster_permissions_missing")


def test_all_pods_are_in_one_domain_of_the_label(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(2, prefix="a", labels={"rack": "a"}, resources={"cpu": "1"})
    make_nodes(2, prefix="b", labels={"rack": "b"}, resources={"cpu": "2"})
    make_nodes(1, prefix="x", resources={"cpu": "64"})
    topology = {"topology": [{"key": "rack"}]}
    with Scheduler(control_plane.kubeconfig):
        api.create(native_group(namespace, "g", 3, schedulingConstraints=topology))
        for i in range(3):
            api.create(native_pod(namespace, f"p-{i}", "g"))
        nodes = all_placed(api, namespace, [f"p-{i}" for i in range(3)])
        assert {node[0] for node in nodes.values()} == {"b"}
        api.create(native_group(namespace, "large", 5, schedulingConstraints=topology))
        for i in range(5):
            api.create(native_pod(namespace, f"l-{i}", "large"))
        until("Unschedulable", lambda: is_so(api, namespace, "large", "False"), 30)
        assert not [name for name in placed(api, namespace) if name.startswith("l-")]


def test_a_group_that_is_disrupted_whole_goes_whole_and_says_so(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, prefix="d", labels={"rack": "d"}, resources={"cpu": "3"})
    for name, value in (("low", 1), ("high", 1000)):
        meta = {"name": f"{namespace}-{name}"}
        api.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )
    classes = {name: {"priorityClassName": f"{namespace}-{name}"} for name in ("low", "high")}
    with Scheduler(control_plane.kubeconfig, config=PREEMPT):
        api.create(native_group(namespace, "low", 1, disruptionMode="PodGroup", **classes["low"]))
        low = [f"low-{i}" for i in range(3)]
        for name in low:
            api.create(native_pod(namespace, name, "low", terminationGracePeriodSeconds=10, **classes["low"]))
        all_placed(api, namespace, low)
        until("they run", lambda: _running(api, namespace) == 3, 30)
        topology = {"topology": [{"key": "rack"}]}
        api.create(native_group(namespace, "high", 1, schedulingConstraints=topology, **classes["high"]))
        api.create(native_pod(namespace, "high-0", "high", **classes["high"]))
        lost = until("DisruptionTarget", lambda: is_so(api, namespace, "low", "True", "DisruptionTarget"), 30)
        assert lost["reason"] == "PreemptionByScheduler"
        waits = f"/api/v1/namespaces/{namespace}/pods/high-0"
        until("the nomination", lambda: api.get(waits)["status"].get("nominatedNodeName") == "d1", 20)
        all_placed(api, namespace, ["high-0"], 60)
        assert set(placed(api, namespace)) == {"high-0"}


def _running(api: Api, namespace: str) -> int:
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
    return sum(one["status"].get("phase") == "Running" for one in pods)


def test_an_indexed_job_is_a_gang_as_the_job_controller_makes_it(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, prefix="j", resources={"cpu": "2"})
    template = {"spec": {**muster_pod(namespace, "t")["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
    with Scheduler(control_plane.kubeconfig):
        api.create(manifest("batch/v1", "Job", "j", namespace=namespace, spec=spec))
        groups = f"/apis/{VERSION}/namespaces/{namespace}/podgroups"
        (group,) = until("its PodGroup", lambda: api.list(groups), 30)
        name = group["metadata"]["name"]
        until("Unschedulable", lambda: is_so(api, namespace, name, "False"), 60)
        assert placed(api, namespace) == {}
        make_nodes(1, prefix="k", resources={"cpu": "1"})
        until("all three", lambda: len(placed(api, namespace)) == 3, 30)


def test_every_group_that_can_be_placed_is_placed(control_plane: ControlPlane, api: Api) -> None:
    """A few of the groups of `bench/live native-groups`, the last of which need victims."""
    free, full = placeable(4), placeable(2, victims=True)
    create_nodes(api, [*free, *full])
    for namespace, cases in (("free", free), ("full", full)):
        scheduler = Scheduler(control_plane.kubeconfig, config=PREEMPT)
        assert placed_by(api, namespace, cases, "muster", scheduler) == len(cases)
