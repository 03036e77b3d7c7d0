"""Gangs of described workload kinds: RayClusters, a LeaderWorkerSet and a kind that only a ConfigMap describes.

The tests play the operators: they create the objects and their pods as the operators do. The scheduler and
`muster pod-groups` have the rights of their accounts, nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.manifests import GROUP_ANNOTATION, manifest
from live.accounts import let_read
from live.api import Api, place, until
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import (
    Scheduler,
    all_placed,
    assert_sound,
    condition,
    muster_pod,
    names_of,
    placed,
    read_groups,
    stays_unplaced,
)
from live.operators import define, owned, ray_cluster
from live.part_process import Part
from muster.workloads.table import CONFIG_MAP, CONFIG_MAP_KEY

TESTS = Path(__file__).parent.parent
KINDS = {
    "ray.io/v1": ("RayCluster", "rayclusters"),
    "leaderworkerset.x-k8s.io/v1": ("LeaderWorkerSet", "leaderworkersets"),
    "example.com/v1": ("Crew", "crews"),
}
CREW = """
kinds:
- kind: Crew
  apiVersions: [example.com/v1]
  minMember: spec.hands
  podSets:
  - {template: spec.template, count: spec.hands}
"""


@pytest.fixture(scope="module")
def operators(control_plane: ControlPlane, crds: None, rights: None) -> Iterator[None]:
    """The custom resources of the kinds."""
    api = control_plane.api
    made = [define(api, api_version, kind, plural) for api_version, (kind, plural) in KINDS.items()]
    yield
    for one in made:
        api.delete(place(one))


pytestmark = pytest.mark.usefixtures("operators")


@pytest.mark.parametrize("written", [False, True], ids=["in memory", "written"])
def test_a_ray_cluster_is_bound_with_its_minimum_or_not_at_all(
    written: bool, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    make_nodes(1, resources={"cpu": "3"})
    if written:
        request.getfixturevalue("pod_groups")
    with Scheduler(scheduler_kubeconfig) as muster:
        waiting = names_of(ray_cluster(api, namespace, "ray", 4, minimum=3))
        reason = until("a reason", lambda: condition(api, namespace, waiting[0]).get("message"))
        assert "4 minAvailable" in reason
        stays_unplaced(api, namespace, waiting, 3)
        make_nodes(1, resources={"cpu": "1"})
        until("the head and three workers", lambda: len(placed(api, namespace)) == 4)
        assert "ray-head-0x" in placed(api, namespace)
        make_nodes(1, resources={"cpu": "1"})
        all_placed(api, namespace, waiting)
        assert_sound(api, namespace)
        assert muster.metric("muster_faults_total") == 0
        found = read_groups(api, namespace)
        assert [one["spec"]["minMember"] for one in found] == [4] * written
        for one in found:
            assert one["spec"]["minTaskMember"] == {"headgroup": 1, "small": 3}
            assert [owner["kind"] for owner in one["metadata"]["ownerReferences"]] == ["RayCluster"]
            for pod in api.list(f"/api/v1/namespaces/{namespace}/pods"):
                assert pod["metadata"]["annotations"][GROUP_ANNOTATION] == one["metadata"]["name"]


def test_every_replica_of_a_leader_worker_set_is_a_gang_and_its_group_goes_with_a_scale_down(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, pod_groups: Part
) -> None:
    make_nodes(1, resources={"cpu": "3"})
    template = {"spec": muster_pod(namespace, "x")["spec"]}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    owner = api.create(
        manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", namespace=namespace, spec=spec)
    )
    domain = "leaderworkerset.sigs.k8s.io"
    for gang in ("0", "1"):
        for index in ("0", "1"):
            labels = {f"{domain}/name": "lws", f"{domain}/group-index": gang, f"{domain}/worker-index": index}
            api.create(owned(muster_pod(namespace, f"lws-{gang}-{index}"), owner, labels))
    with Scheduler(scheduler_kubeconfig):
        until("one gang", lambda: len(placed(api, namespace)) == 2)
        (gang,) = {name.split("-")[1] for name in placed(api, namespace)}
        others = [f"lws-{1 - int(gang)}-{index}" for index in "01"]
        stays_unplaced(api, namespace, others, 3)
        assert sorted(one["spec"]["minMember"] for one in read_groups(api, namespace)) == [2, 2]
        api.merge(place(owner), {"spec": {"replicas": 1}})
        for index in "01":
            api.delete(f"/api/v1/namespaces/{namespace}/pods/lws-1-{index}", {"gracePeriodSeconds": 0})
        until("one group", lambda: [one["metadata"]["name"][-2:] for one in read_groups(api, namespace)] == ["-0"])


def test_a_kind_that_the_config_map_describes_is_followed_without_a_restart(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1, resources={"cpu": "2"})
    let_read(api, HOME, "scheduler", "example.com", "crews")
    with Scheduler(scheduler_kubeconfig, "--applications", f"{HOME}/groupmanagement-config") as muster:
        table = api.create(manifest("v1", "ConfigMap", CONFIG_MAP, namespace=HOME, data={CONFIG_MAP_KEY: CREW}))
        try:
            until("the kind", lambda: any("Crew.example.com" in str(entry) for entry in muster.log()))
            owner = api.create(manifest("example.com/v1", "Crew", "three", namespace=namespace, spec={"hands": 3}))
            pods = [api.create(owned(muster_pod(namespace, f"hand-{i}"), owner, {})) for i in range(3)]
            stays_unplaced(api, namespace, names_of(pods), 3)
            assert "3 minAvailable" in condition(api, namespace, "hand-0")["message"]
            make_nodes(1, resources={"cpu": "1"})
            all_placed(api, namespace, names_of(pods))
        finally:
            api.delete(place(table))


@pytest.mark.parametrize("number", range(6))
def test_groups_are_written_once_though_pod_groups_was_killed_at_any_call(
    number: int, control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes,
    scheduler_kubeconfig: Path,
) -> None:  # fmt: skip
    """One call creates the group and five name it on the pods."""
    make_nodes(1, resources={"cpu": "8"})
    pods = names_of(ray_cluster(api, namespace, "ray", 4))
    account = control_plane.kubeconfig_of(HOME, "muster-pod-groups")
    killed = Part("pod-groups", account, "--no-leader-elect")
    killed.run_instead([sys.executable, "-m", "live.killed_at", str(number)], cwd=TESTS)
    until("its end", lambda: not killed.running, 30)
    assert killed.killed, killed.log_file.read_text(encoding="utf-8")
    with Part("pod-groups", account, "--no-leader-elect"), Scheduler(scheduler_kubeconfig):
        all_placed(api, namespace, pods)
        until("all names", lambda: all_named(api, namespace, len(pods)))
        (group,) = until("its group", lambda: read_groups(api, namespace))
        assert group["spec"]["minMember"] == 5


def all_named(api: Api, namespace: str, count: int) -> bool:
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
    return sum(GROUP_ANNOTATION in pod["metadata"].get("annotations", {}) for pod in pods) == count
