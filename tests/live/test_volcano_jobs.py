"""`muster scheduler` and the objects that Volcano's controller creates for a Job of batch.volcano.sh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live.api import Api, Plain, until
from live.conftest import MakeNodes, served
from live.muster_process import Scheduler, all_placed, assert_sound, create_all, placed, read_group, stays_unplaced
from muster.cluster import volcano_objects
from muster.model import volcano_job
from muster.model.kinds import decode_as, plain

pytestmark = pytest.mark.usefixtures("crds")

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobs.batch.volcano.sh"},
    "spec": {
        "group": "batch.volcano.sh",
        "names": {"kind": "Job", "plural": "jobs", "singular": "job", "listKind": "JobList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module", autouse=True)
def volcano_jobs(api: Api) -> Iterator[None]:
    """The definition of Volcano's Job: the owner of the group and the pods exists, with a real uid."""
    api.create(DEFINITION)
    until("Jobs of Volcano to be served", lambda: served(api, "/apis/batch.volcano.sh/v1alpha1/jobs"))
    yield
    api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobs.batch.volcano.sh")


def task(name: str, replicas: int, cpu: str, **more: object) -> Plain:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}, **more}


def created(api: Api, namespace: str, name: str, *tasks: Plain, **spec: object) -> tuple[Plain, list[Plain]]:
    """Creates the Job and its PodGroup; the group as it was created, and the pods that are to be created."""
    meta = {"name": name, "namespace": namespace}
    job = {"apiVersion": volcano_job.API_VERSION, "kind": "Job", "metadata": meta, "spec": {"tasks": tasks, **spec}}
    made = decode_as(volcano_job.Job, api.create(job))
    full = volcano_objects.with_defaults(made.spec)
    group = plain(volcano_objects.pod_group(made, full, {}))
    of_group = group["metadata"]["name"]
    pods = [plain(volcano_objects.pod(made, full, one, i, of_group)) for one in full.tasks for i in range(one.replicas)]
    return api.create(group), pods


def phase(api: Api, namespace: str, group: Plain) -> str:
    found: str = read_group(api, namespace, group["metadata"]["name"]).get("status", {}).get("phase", "")
    return found


def test_the_pods_of_a_job_come_after_its_group_and_are_bound_as_one_gang(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(2, resources={"cpu": "4"})
    with Scheduler(scheduler_kubeconfig, "--scheduler-name", "volcano"):
        group, pods = created(api, namespace, "train", task("ps", 1, "2"), task("worker", 3, "2"))
        names = [pod["metadata"]["name"] for pod in pods]
        assert names == ["train-ps-0", "train-worker-0", "train-worker-1", "train-worker-2"]
        assert group["metadata"]["name"] == f"train-{group['metadata']['ownerReferences'][0]['uid']}"
        assert group["spec"]["minTaskMember"] == {"ps": 1, "worker": 3} and group["spec"]["minMember"] == 4
        # Volcano's controller creates the pods when the group has left Pending.
        until("phase Inqueue", lambda: phase(api, namespace, group) == "Inqueue")
        create_all(api, pods[:3], 3)
        stays_unplaced(api, namespace, names)
        create_all(api, pods[3:], 1)
        all_placed(api, namespace, names)
        until("phase Running", lambda: phase(api, namespace, group) == "Running")
        assert_sound(api, namespace)


def test_a_group_without_pods_that_is_not_admitted_has_the_reason_as_its_condition(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1, resources={"cpu": "4"})
    with Scheduler(scheduler_kubeconfig, "--scheduler-name", "volcano"):
        large, _ = created(api, namespace, "large", task("t", 9, "2"))

        def conditions() -> list[Plain]:
            status = read_group(api, namespace, large["metadata"]["name"]).get("status", {})
            return [one for one in status.get("conditions", ()) if one["type"] == "Unschedulable"]

        (found,) = until("a condition", conditions)
        assert "cpu" in found["message"]
        # Others are not held up.
        group, pods = created(api, namespace, "small", task("t", 2, "2"))
        until("Inqueue", lambda: phase(api, namespace, group) == "Inqueue")
        create_all(api, pods, 2)
        all_placed(api, namespace, ["small-t-0", "small-t-1"])
        assert set(placed(api, namespace)) == {"small-t-0", "small-t-1"}
