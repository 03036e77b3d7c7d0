"""Beside Volcano: its own definitions of Queue and PodGroup, which differ from ours in two ways; pods of its Jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.manifests import group, queue
from live.api import Api, Plain, until
from live.conftest import MakeNodes, served
from live.muster_process import Scheduler, all_placed, gang, muster_pod, read_group, stays_unplaced

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VOLCANO = "scheduling.volcano.sh"


@pytest.fixture
def volcanos_definitions(api: Api, crds: None) -> Iterator[None]:
    ours = {kind: api.get(f"{DEFINITIONS}/{kind}.{VOLCANO}")["spec"]["versions"] for kind in ("podgroups", "queues")}
    # Volcano: the status of a PodGroup is no subresource, and that of a Queue always has allocated.
    (groups,), (queues,) = ours["podgroups"], ours["queues"]
    settle(api, "podgroups", [{name: part for name, part in groups.items() if name != "subresources"}])
    status = queues["schema"]["openAPIV3Schema"]["properties"]["status"]
    schema = queues["schema"]["openAPIV3Schema"]
    properties = {**schema["properties"], "status": {**status, "required": ["allocated"]}}
    settle(api, "queues", [{**queues, "schema": {"openAPIV3Schema": {**schema, "properties": properties}}}])
    yield
    for kind, versions in ours.items():
        settle(api, kind, versions)


def settle(api: Api, kind: str, versions: list[Any]) -> None:
    """Change the definition, and wait until the API server acts by it."""
    api.merge(f"{DEFINITIONS}/{kind}.{VOLCANO}", {"spec": {"versions": versions}})
    until(f"{kind} to be served", lambda: served(api, f"/apis/{VOLCANO}/v1beta1/{kind}"))
    wanted = "subresources" in versions[0]
    path = f"{kind}/status"
    until(path, lambda: (path in resources(api)) == wanted)


def resources(api: Api) -> list[str]:
    return [resource["name"] for resource in api.get(f"/apis/{VOLCANO}/v1beta1")["resources"]]


def test_the_status_of_groups_and_queues_is_written_all_the_same(
    volcanos_definitions: None, scheduler_kubeconfig: Path, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    api.create(queue("live-volcanos"))
    path = f"/apis/{VOLCANO}/v1beta1/queues/live-volcanos"
    with Scheduler(scheduler_kubeconfig) as scheduler:
        until("an empty queue's state", lambda: api.get(path).get("status", {}).get("state") == "Open")
        all_placed(api, namespace, gang(api, namespace, "g", 2, queue="live-volcanos"))
        until("the phase", lambda: read_group(api, namespace, "g").get("status", {}).get("phase") == "Running")
        until("what is allocated", lambda: api.get(path)["status"].get("allocated", {}).get("cpu") == "2")
        assert scheduler.metric("muster_status_write_failures_total") == 0
    api.delete(path)


@pytest.fixture
def volcano_job(api: Api, namespace: str) -> Iterator[Plain]:
    """A Volcano Job (its own controller is not here), made known to the API server by as much as it asks for."""
    name = "jobs.batch.volcano.sh"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    api.apply({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "batch.volcano.sh", "scope": "Namespaced",
            "names": {"kind": "Job", "listKind": "JobList", "plural": "jobs", "singular": "job"},
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    })  # fmt: skip
    until("its jobs to be served", lambda: served(api, "/apis/batch.volcano.sh/v1alpha1/jobs"))
    time.sleep(2)  # creates are held back for so long after a definition is established
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"minAvailable": 3},
           "metadata": {"name": "train", "namespace": namespace}}  # fmt: skip
    yield api.create(job)
    api.delete(f"{DEFINITIONS}/{name}")


def test_what_volcanos_job_controller_makes_is_scheduled(
    crds: None, volcano_job: Plain, scheduler_kubeconfig: Path, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    """Its pods and its PodGroup as Volcano 1.13 makes them: the same annotations, labels, owners and names."""
    make_nodes(1, resources={"cpu": "2"})
    uid = volcano_job["metadata"]["uid"]
    name = f"train-{uid}"
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid,
             "controller": True, "blockOwnerDeletion": True}  # fmt: skip
    made = group(
        name, "default", namespace=namespace, minMember=3, minTaskMember={"master": 1, "worker": 2},
        minResources={"cpu": "3"},
    )  # fmt: skip
    made["metadata"]["ownerReferences"] = [owner]
    api.create(made)
    roles = {"train-master-0": "master", "train-worker-0": "worker", "train-worker-1": "worker"}
    for pod_name, role in roles.items():
        notes = {"volcano.sh/job-name": "train", "volcano.sh/job-version": "0", "volcano.sh/task-spec": role,
                 "volcano.sh/queue-name": "default", "volcano.sh/template-uid": f"train-{role}"}  # fmt: skip
        one = muster_pod(namespace, pod_name, name, annotations=notes, labels={"volcano.sh/job-name": "train"})
        one["metadata"]["ownerReferences"] = [owner]
        one["spec"]["schedulerName"] = "volcano"
        api.create(one)
    with Scheduler(scheduler_kubeconfig, "--scheduler-name", "volcano"):
        stays_unplaced(api, namespace, list(roles), 2)
        make_nodes(1, resources={"cpu": "1"})
        all_placed(api, namespace, list(roles))
        until("the phase", lambda: read_group(api, namespace, name).get("status", {}).get("phase") == "Running")
