"""What `muster scheduler` reports: statuses, conditions and events of groups, queues and pods on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.manifests import group, queue
from live.api import Api, Plain, place, until
from live.conftest import MakeNodes
from live.muster_process import (
    Scheduler,
    all_placed,
    condition,
    events,
    gang,
    muster_pod,
    placed,
    read_group,
    stays_unplaced,
    volume_of,
)
from live.test_scheduler import EVICTS

pytestmark = pytest.mark.usefixtures("crds")
KEPT = "live.muster.test/kept"


@pytest.fixture
def high(api: Api, namespace: str) -> Iterator[str]:
    made = api.create({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"{namespace}-high"},
        "value": 1000,
    })  # fmt: skip
    yield made["metadata"]["name"]
    api.delete(place(made))


@pytest.fixture
def mine(api: Api, namespace: str) -> Iterator[str]:
    """A queue. While there is any, `default` is not made up."""
    made = api.create(queue(f"{namespace}-q", weight=1))
    yield made["metadata"]["name"]
    api.delete(place(made))


def conditions(status: Plain) -> dict[str, Plain]:
    return {c["type"]: c for c in status.get("conditions", ())}


def test_groups_and_queues_say_how_they_are(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, mine: str
) -> None:
    make_nodes(1)
    with Scheduler(scheduler_kubeconfig, "--period", "1"):
        all_placed(api, namespace, gang(api, namespace, "runs", 2, queue=mine))
        large = gang(api, namespace, "large", 7, queue=mine)
        until("phase Running", lambda: read_group(api, namespace, "runs").get("status", {}).get("phase") == "Running")
        until("both running", lambda: read_group(api, namespace, "runs")["status"].get("running") == 2)
        ready = conditions(read_group(api, namespace, "runs")["status"])["Scheduled"]
        assert (ready["status"], ready["reason"]) == ("True", "tasks in gang are ready to be scheduled")
        until("the event", lambda: events(api, namespace, "runs", "Scheduled"))

        def of_all() -> Plain | None:
            """Reported once all of its pods were there: a cycle may have met the first few."""
            found = conditions(read_group(api, namespace, "large").get("status", {})).get("Unschedulable", {})
            whole = ("1/7 tasks in gang unschedulable", "7/7 tasks in gang unschedulable")
            return found if found.get("message", "").startswith(whole) else None

        short = until("why", of_all)
        assert (short["status"], short["reason"]) == ("True", "NotEnoughResources")
        assert short["transitionID"]
        warned = until("its event", lambda: events(api, namespace, "large", "Unschedulable"))
        assert warned[0]["type"] == "Warning"
        status = until("the queue's counts", lambda: counted(api, mine, running=1))
        assert status["state"] == "Open"
        assert status["allocated"] == {"cpu": "2", "memory": "128Mi"}
        assert (status.get("pending", 0) + status.get("inqueue", 0), status.get("completed", 0)) == (1, 0)
        message = until("a first cause", lambda: condition(api, namespace, large[0]).get("message"))
        assert message.startswith("0/1 nodes are available: 1 Insufficient cpu") or "queue" in message, message
        stays_unplaced(api, namespace, large, 5)
        # Some cycles later: the group has the event for all its pods, not one for each pod or cycle.
        assert not events(api, namespace, large[0], "FailedScheduling")
        reported = events(api, namespace, "large", "Unschedulable")
        cause = message.partition(" (pod ")[0].partition(". ")[0]
        assert len(reported) <= 3 and f": {cause}" in reported[-1]["message"]
        for one in placed(api, namespace):
            api.delete(f"/api/v1/namespaces/{namespace}/pods/{one}", {"gracePeriodSeconds": 0})
        all_placed(api, namespace, large)
        until("what is held now", lambda: counted(api, mine, running=1).get("allocated", {}).get("cpu") == "7")
        ended = conditions(read_group(api, namespace, "large")["status"])
        assert (ended["Unschedulable"]["status"], ended["Scheduled"]["status"]) == ("False", "True")


def counted(api: Api, name: str, **counts: int) -> Plain:
    """The queue's status once it has these counts."""
    status: Plain = api.get(f"/apis/scheduling.volcano.sh/v1beta1/queues/{name}").get("status", {})
    return status if all(status.get(field, 0) == n for field, n in counts.items()) else {}


def test_a_running_gang_below_its_minimum_reports_it(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1, resources={"cpu": "3"})
    with Scheduler(scheduler_kubeconfig) as muster:
        all_placed(api, namespace, gang(api, namespace, "trio", 3))
        until("all running", lambda: read_group(api, namespace, "trio").get("status", {}).get("running") == 3)
        assert muster.metric("muster_gangs_below_minimum") == 0
        api.delete(f"/api/v1/namespaces/{namespace}/pods/trio-1", {"gracePeriodSeconds": 0})

        def below() -> Plain:
            return conditions(read_group(api, namespace, "trio")["status"]).get("BelowMinMember", {})

        until("the condition", lambda: below().get("status") == "True")
        assert below()["message"] == "2 of at least 3 pods are running or about to"
        until("the metric", lambda: muster.metric("muster_gangs_below_minimum") == 1)
        api.create(muster_pod(namespace, "trio-1", "trio"))
        until("whole again", lambda: below().get("status") == "False")
        until("the metric", lambda: muster.metric("muster_gangs_below_minimum") == 0)


def test_one_refused_eviction_drops_the_whole_plan_with_its_reason(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, high: str
) -> None:
    make_nodes(1)
    name = f"{namespace}-stays"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"],
            }]},
            "validations": [{"expression": "object.metadata.name != 'low-1'", "message": "low-1 stays"}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    }  # fmt: skip
    path = "/apis/admissionregistration.k8s.io/v1"
    api.call("POST", f"{path}/validatingadmissionpolicies", policy)
    api.call("POST", f"{path}/validatingadmissionpolicybindings", binding)
    try:
        with Scheduler(scheduler_kubeconfig, "--period", "1", config=EVICTS) as muster:
            low = gang(api, namespace, "low", 2, 0, cpu="4")
            all_placed(api, namespace, low)
            until("the policy to be kept", lambda: refused(api, namespace))
            api.create(muster_pod(namespace, "high", cpu="8", priorityClassName=high))
            until("the reason", lambda: "low-1 stays" in condition(api, namespace, "high").get("message", ""))
            assert "No capacity was freed: an eviction was refused" in condition(api, namespace, "high")["message"]
            until("its event", lambda: events(api, namespace, "high", "EvictionRefused"))
            assert muster.metric("muster_evictions_refused_total") > 0
            stays_unplaced(api, namespace, ["high"], 3)
            assert set(low) <= placed(api, namespace).keys(), "the other victim was not evicted"
    finally:
        api.delete(f"{path}/validatingadmissionpolicybindings/{name}")
        api.delete(f"{path}/validatingadmissionpolicies/{name}")


def refused(api: Api, namespace: str) -> bool:
    """Does the API server act by the policy already?"""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "low-1", "namespace": namespace}}
    try:
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods/low-1/eviction?dryRun=All", eviction)
    except Exception as why:
        return "low-1 stays" in str(why)
    return False


@pytest.fixture
def other(api: Api, namespace: str) -> Iterator[str]:
    """A second namespace."""
    name = f"{namespace}-claimer"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    until("its account", lambda: not api.gone(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    api.delete(f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def kept_victim(api: Api, namespace: str) -> Iterator[Plain]:
    """A pod that stays to be looked at while it goes, as long as the test runs."""
    api.create(group("low", "default", namespace=namespace, minMember=0))
    one = muster_pod(namespace, "victim", "low", cpu="8")
    one["metadata"]["finalizers"] = [KEPT]
    yield api.create(one)
    if not api.gone(place(one)):
        api.merge(place(one), {"metadata": {"finalizers": None}})


def test_neither_side_of_an_eviction_learns_names_of_the_others_namespace(
    api: Api, namespace: str, other: str, kept_victim: Plain, make_nodes: MakeNodes, scheduler_kubeconfig: Path,
    high: str,
) -> None:  # fmt: skip
    make_nodes(1)
    path = place(kept_victim)
    with Scheduler(scheduler_kubeconfig, config=EVICTS):
        all_placed(api, namespace, ["victim"])
        api.create(muster_pod(other, "claimer", cpu="8", priorityClassName=high))
        gone = until("the eviction", lambda: terminating(api, path))
        assert gone["metadata"]["uid"] == kept_victim["metadata"]["uid"]
        notes = gone["metadata"]["annotations"]
        assert notes["muster.io/evicted-by"] == "a pod of another namespace"
        assert notes["muster.io/evicted-rule"] == "preempt"
        claimer = f"/api/v1/namespaces/{other}/pods/claimer"
        until("the nomination", lambda: api.get(claimer)["status"].get("nominatedNodeName") == "n1")
        mine = until("its event", lambda: events(api, other, "claimer", "Evicting"))
        assert mine[0]["message"] == "preempt evicts 1 pod"
        theirs = until("the victim's", lambda: events(api, namespace, "low", "Evict"))
        text = f"1 pod evicted by preempt to make room for a pod of another namespace: {namespace}/victim"
        assert theirs[0]["message"] == text
        for one, strangers in ((namespace, other), (other, f"{namespace}/")):
            texts = [e["message"] for e in api.list(f"/api/v1/namespaces/{one}/events")]
            assert not [text for text in texts if strangers in text]
        stays_unplaced(api, other, ["claimer"], 2)
        api.merge(path, {"metadata": {"finalizers": None}})
        all_placed(api, other, ["claimer"], 40)


def terminating(api: Api, path: str) -> Plain | None:
    found = api.get(path)
    return found if found["metadata"].get("deletionTimestamp") else None


def test_a_claim_is_given_its_node_waited_for_and_taken_back(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1)
    late = api.create({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": f"{namespace}-slow"},
        "provisioner": "live.muster.test/none", "volumeBindingMode": "WaitForFirstConsumer",
    })  # fmt: skip
    name = late["metadata"]["name"]
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": name,
                 "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    api.create(claim)
    selected = "volume.kubernetes.io/selected-node"

    def chosen() -> str | None:
        return api.get(place(claim))["metadata"].get("annotations", {}).get(selected)

    with Scheduler(scheduler_kubeconfig, "--volume-patience", "3"):
        api.create(muster_pod(namespace, "a", volumes=[volume_of("data")]))
        until("the selected node", lambda: chosen() == "n1")
        assert "a" not in placed(api, namespace)
        until("it is taken back", lambda: chosen() is None, 30)
        until("the reason", lambda: "was not bound within 3 s" in condition(api, namespace, "a").get("message", ""))
        until("the next try", lambda: chosen() == "n1", 40)
        disk = api.create({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{namespace}-made"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": name,
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/made"},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace,
                             "name": "data"},
            },
        })  # fmt: skip
        assert all_placed(api, namespace, ["a"], 60)["a"] == "n1"
    api.delete(place(disk))
    api.delete(place(late))


def test_a_pod_with_resource_claims_is_refused_with_a_reason(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1)
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    for config in ("", EVICTS.replace("{name: predicates}, ", "")):
        with Scheduler(scheduler_kubeconfig, config=config):
            name = "without-predicates" if config else "default"
            api.create(muster_pod(namespace, name, resourceClaims=claims))
            until("a reason", lambda name=name: "resourceClaims" in condition(api, namespace, name).get("message", ""))
            stays_unplaced(api, namespace, [name])
