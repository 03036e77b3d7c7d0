"""The ground the live tests stand on: it behaves like Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.api import Api, Plain, Refused, place, until
from live.binary import Missing, binary, version
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import muster_pod


def reaches(api: Api, made: Plain, phase: str) -> Plain:
    def now() -> Plain | None:
        seen = api.get(place(made))
        return seen if seen["status"]["phase"] == phase else None

    return until(f"{made['metadata']['name']} {phase}", now)


def test_it_is_the_pinned_kubernetes(api: Api, control_plane: ControlPlane) -> None:
    assert api.get("/version")["gitVersion"] == version()
    assert control_plane.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_without_go_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Missing, match="there is no Go on the PATH"):
        binary()


def test_a_pod_that_is_bound_runs_with_its_image(api: Api, namespace: str, make_nodes: MakeNodes) -> None:
    node = make_nodes(2, resources={"nvidia.com/gpu": "8"})[1]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    made = api.create(muster_pod(namespace, "a"))
    api.bind(made, node["metadata"]["name"])
    running = reaches(api, made, "Running")
    assert running["spec"]["nodeName"] == node["metadata"]["name"]
    assert running["status"]["containerStatuses"][0]["image"] == "app:1"
    with pytest.raises(Refused) as second:
        api.bind(made, node["metadata"]["name"])
    assert second.value.status == 409


def test_kube_scheduler_leaves_our_pods_alone_and_places_its_own(
    api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    ours, theirs = muster_pod(namespace, "ours"), muster_pod(namespace, "theirs")
    del theirs["spec"]["schedulerName"]
    api.create(ours)
    reaches(api, api.create(theirs), "Running")
    assert "nodeName" not in api.get(place(ours))["spec"]


def test_a_pod_may_finish_or_be_refused_by_its_kubelet(api: Api, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    short = api.create(muster_pod(namespace, "short", annotations={"live.muster.test/runs-for": "10ms"}))
    unwanted = api.create(muster_pod(namespace, "unwanted", annotations={"live.muster.test/refused": "OutOfcpu"}))
    api.bind(short, "n1")
    api.bind(unwanted, "n1")
    reaches(api, short, "Succeeded")
    assert reaches(api, unwanted, "Failed")["status"]["reason"] == "OutOfcpu"


def test_a_new_image_reaches_the_status(api: Api, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    made = api.create(muster_pod(namespace, "a"))
    api.bind(made, "n1")
    reaches(api, made, "Running")
    change = {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    api.call("PATCH", place(made), change, "application/strategic-merge-patch+json")
    until(
        "the new image",
        lambda: api.get(place(made))["status"]["containerStatuses"][0]["image"] == "app:2",
    )


def test_a_deleted_pod_goes(api: Api, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    made = api.create(muster_pod(namespace, "a"))
    api.bind(made, "n1")
    reaches(api, made, "Running")
    api.delete(place(made))
    until("the pod to go", lambda: api.gone(place(made)))


def test_parts_can_be_killed_and_come_back_with_what_they_knew(namespace: str, control_plane: ControlPlane) -> None:
    api = control_plane.api
    control_plane.kill("kube-apiserver")
    control_plane.run("kube-apiserver")
    control_plane.wait_ready("kube-apiserver")
    assert api.get(f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace
