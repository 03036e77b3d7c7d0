"""Pods that name no group: gangs by their owner's annotation, in memory and as PodGroups of `muster pod-groups`.

The owners are made by the real kube-controller-manager; the writer has the rights of its own account, nothing else.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.manifests import GROUP_ANNOTATION, queue
from live.api import Api, Plain, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import (
    Scheduler,
    all_placed,
    assert_sound,
    condition,
    journals,
    muster_pod,
    names_of,
    placed,
    read_group,
    read_groups,
    stays_unplaced,
)
from live.part_process import Part
from muster.engine.core.podgroups import QUEUE_NAME
from muster.engine.core.reading import ADMITTED, ALLOCATION_GATE
from muster.scheduler.journal import JOURNAL, Entry, Journal, encode
from muster.workloads import MIN_MEMBER

pytestmark = pytest.mark.usefixtures("crds")
TESTS = Path(__file__).parent.parent


@pytest.fixture
def small(api: Api, namespace: str) -> Iterator[str]:
    """A queue for one cpu."""
    made = api.create(queue(f"{namespace}-small", weight=1, capability={"cpu": "1"}))
    yield made["metadata"]["name"]
    api.delete(place(made))


def workload(namespace: str, kind: str, name: str, members: int, **spec: object) -> Plain:
    template = muster_pod(namespace, name)
    del template["metadata"]["name"], template["metadata"]["namespace"]
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": template["metadata"]["labels"]}
    meta = {"name": name, "namespace": namespace, "annotations": {MIN_MEMBER: str(members)}}
    of = {"apiVersion": template.pop("apiVersion"), "kind": template.pop("kind")}
    assert of["kind"] == "Pod"
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"template": template, **spec}}


def pods_of(api: Api, namespace: str, count: int, app: str) -> list[Plain]:
    """So many pods of the application, once they are there."""

    def there() -> list[Plain] | None:
        found = api.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}")
        whole = [{"apiVersion": "v1", "kind": "Pod", **one} for one in found]
        return whole if len(found) == count else None

    return until(f"{count} pods of {app}", there)


@pytest.mark.parametrize("written", [False, True], ids=["in memory", "written"])
def test_a_deployment_is_bound_whole_or_not_at_all(
    written: bool, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    make_nodes(1, resources={"cpu": "4"})
    if written:
        request.getfixturevalue("pod_groups")
    with Scheduler(scheduler_kubeconfig) as muster:
        api.create(workload(namespace, "Deployment", "web", 6, replicas=6))
        waiting = names_of(pods_of(api, namespace, 6, "web"))
        message = until("a reason", lambda: condition(api, namespace, waiting[0]).get("message"))
        assert "6 minAvailable" in message
        stays_unplaced(api, namespace, waiting, 3)
        make_nodes(1, resources={"cpu": "4"})
        all_placed(api, namespace, waiting)
        until("no open journal", lambda: not journals(api, namespace))
        assert_sound(api, namespace)
        assert [g["spec"]["minMember"] for g in read_groups(api, namespace)] == [6] * written
        assert muster.metric("muster_faults_total") == 0


def test_deployments_jobs_stateful_sets_and_single_pods_get_their_groups(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, pod_groups: Part
) -> None:
    make_nodes(3)
    for one in (
        workload(namespace, "Deployment", "web", 2, replicas=3),
        workload(namespace, "StatefulSet", "db", 2, replicas=2, podManagementPolicy="Parallel", serviceName="db"),
        workload(namespace, "Job", "batch", 4, parallelism=4, completions=4),
    ):
        api.create(one)
    api.create(muster_pod(namespace, "alone", annotations={QUEUE_NAME: "default"}))
    theirs = muster_pod(namespace, "theirs")
    theirs["spec"]["schedulerName"] = "somebody-else"
    api.create(theirs)
    with Scheduler(scheduler_kubeconfig):
        for app, count, members in (("web", 3, 2), ("db", 2, 2), ("batch", 4, 4), ("alone", 1, 1)):
            made = pods_of(api, namespace, count, app)
            all_placed(api, namespace, names_of(made))
            owner = (made[0]["metadata"].get("ownerReferences") or [{}])[0].get("uid") or made[0]["metadata"]["uid"]
            found = until("its group", lambda owner=owner: find(api, namespace, f"podgroup-{owner}"))
            assert found["spec"]["minMember"] == members
            assert found["spec"]["minResources"] == {"cpu": str(members), "memory": f"{64 * members}Mi"}
            assert [o["uid"] for o in found["metadata"]["ownerReferences"]] == [owner]
            until("all named", lambda app=app, count=count, owner=owner: {
                p["metadata"]["annotations"].get(GROUP_ANNOTATION) for p in pods_of(api, namespace, count, app)
            } == {f"podgroup-{owner}"})  # fmt: skip
            until("Running", lambda owner=owner: find(api, namespace, f"podgroup-{owner}")["status"]["phase"]
                  in ("Running", "Completed"))  # fmt: skip
        assert len(read_groups(api, namespace)) == 4


def find(api: Api, namespace: str, name: str) -> Plain:
    return next((g for g in read_groups(api, namespace) if g["metadata"]["name"] == name), {})


def test_a_written_group_follows_its_owner_and_goes_with_it(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, pod_groups: Part
) -> None:
    make_nodes(1)
    web = workload(namespace, "Deployment", "web", 2, replicas=2)
    api.create(web)
    with Scheduler(scheduler_kubeconfig):
        all_placed(api, namespace, names_of(pods_of(api, namespace, 2, "web")))
        (made,) = until("its group", lambda: read_groups(api, namespace))
        api.merge(place(web), {"metadata": {"annotations": {MIN_MEMBER: "1"}}})
        until("the new minimum", lambda: read_groups(api, namespace)[0]["spec"]["minMember"] == 1)
        api.merge(place(web), {"spec": {"replicas": 0}})
        until("the group to go", lambda: not read_groups(api, namespace))
        api.merge(place(web), {"spec": {"replicas": 1}})
        (again,) = until("the group again", lambda: read_groups(api, namespace))
        assert again["metadata"]["name"] == made["metadata"]["name"]
        assert again["metadata"]["uid"] != made["metadata"]["uid"]
        api.delete(place(web), {"propagationPolicy": "Background"})
        until("the group to go with its owner", lambda: not read_groups(api, namespace), 40)


@pytest.mark.parametrize("number", range(4))
def test_a_gang_in_memory_is_whole_though_its_scheduler_was_killed_at_any_call(
    number: int, api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane,
    scheduler_kubeconfig: Path,
) -> None:  # fmt: skip
    """Four bindings, the first with the journal."""
    make_nodes(2, resources={"cpu": "2"})
    api.create(workload(namespace, "Deployment", "web", 4, replicas=4))
    waiting = names_of(pods_of(api, namespace, 4, "web"))
    killed = Scheduler(scheduler_kubeconfig)
    killed.run_instead([sys.executable, "-m", "live.killed_at", str(number)], cwd=TESTS)
    until("its end", lambda: not killed.running, 30)
    assert killed.killed, killed.log_file.read_text(encoding="utf-8")
    with Scheduler(scheduler_kubeconfig):
        all_placed(api, namespace, waiting, 60)
        until("no open journal", lambda: not journals(api, namespace))
        assert_sound(api, namespace)


def test_a_gang_in_memory_that_cannot_be_completed_is_undone(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    """As a leader left it that died after two of four bindings."""
    nodes = make_nodes(2, resources={"cpu": "2"})
    api.create(workload(namespace, "Deployment", "web", 4, replicas=4))
    pods = pods_of(api, namespace, 4, "web")
    entries = {
        one["metadata"]["name"]: Entry(f"n{1 + i // 2}", one["metadata"]["uid"][:8]) for i, one in enumerate(pods)
    }
    text = encode(Journal(holder="dead", at=time.time(), pods=entries))
    api.merge(place(pods[0]), {"metadata": {"annotations": {JOURNAL: text}}})
    for one in pods[:2]:
        api.bind(one, "n1")
    for one in nodes:
        api.merge(place(one), {"spec": {"unschedulable": True}})
    with Scheduler(scheduler_kubeconfig, "--period", "2"):
        until("nothing bound", lambda: not placed(api, namespace), 90)
        until("no open journal", lambda: not journals(api, namespace))
        for one in pods[:2]:
            assert api.gone(place(one)), "evicted"


def test_the_gate_of_the_queue_opens_when_it_has_capacity(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, pod_groups: Part, small: str
) -> None:
    make_nodes(1)
    notes = {ALLOCATION_GATE: "true", QUEUE_NAME: small}
    with Scheduler(scheduler_kubeconfig):
        for name in ("first", "second"):
            gated = muster_pod(namespace, name, annotations=notes, schedulingGates=[{"name": ALLOCATION_GATE}])
            api.create(gated)
        (first,) = until("the first", lambda: sorted(placed(api, namespace)))
        (second,) = {"first", "second"} - {first}
        time.sleep(3)
        held = api.get(f"/api/v1/namespaces/{namespace}/pods/{second}")
        assert held["spec"]["schedulingGates"] == [{"name": ALLOCATION_GATE}]
        assert ADMITTED not in held["metadata"]["annotations"]
        api.delete(f"/api/v1/namespaces/{namespace}/pods/{first}", {"gracePeriodSeconds": 0})
        all_placed(api, namespace, [second])
        assert read_group(api, namespace, f"podgroup-{held['metadata']['uid']}")["spec"]["queue"] == small
