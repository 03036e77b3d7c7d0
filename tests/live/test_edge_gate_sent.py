"""`muster edge-gate`: a pod that was sent stays visible, whatever becomes of its application's policies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live.api import Api, Plain, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.gate_client import GateClient
from live.gate_site import BINDING, METADATA, REQUIRED, TABLE, Gate, bind, made, names, started

pytestmark = pytest.mark.usefixtures("crds", "rights")
BOUND = {REQUIRED: "pp", BINDING: "pp"}


@pytest.fixture
def gate(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Gate]:
    one = started(control_plane, tmp_path)
    with one.part:
        yield one


def run_on_a_node(api: Api, namespace: str, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    until(f"{name} to run", lambda: api.get(path)["status"]["phase"] == "Running", 40)


def change(api: Api, top: Plain, labels: dict[str, str | None]) -> None:
    api.merge(place(top), {"metadata": {"labels": labels}})


def listed(client: GateClient, path: str, accept: str) -> list[str]:
    status, body, _ = client.ask(path, accept)
    assert status == 200
    if "rows" in body:
        return sorted(row["object"]["metadata"]["name"] for row in body["rows"])
    return sorted(item["metadata"]["name"] for item in body["items"])


@pytest.mark.parametrize(
    "labels", [{REQUIRED: "other"}, {BINDING: None}], ids=["another policy is required", "the policy was deleted"]
)
def test_running_pods_are_not_deleted_at_the_edge(
    gate: Gate, control_plane: ControlPlane, tmp_path: Path, api: Api, namespace: str, make_nodes: MakeNodes,
    labels: dict[str, str | None],
) -> None:  # fmt: skip
    """Neither in a watch, nor in a list after a restart, nor by another replica."""
    node = make_nodes(1)[0]
    top = made(api, namespace, "web", 3, BOUND)
    running = names(api, namespace, "web")
    for name in running:
        run_on_a_node(api, namespace, name)
    path = f"/api/v1/namespaces/{namespace}/pods"
    with gate.client(path) as client:
        until("all pods", lambda: len(client.state) == 3)
        change(api, top, labels)
        # A pod that was never sent shows when the gate has taken in the change: it is held.
        api.merge(place(node), {"spec": {"unschedulable": True}})
        api.merge(place(top), {"spec": {"replicas": 4}})
        until("the fourth pod", lambda: len(names(api, namespace, "web")) == 4)
        new = next(name for name in names(api, namespace, "web") if name not in running)
        until("the new one to be held", lambda: client.ask(f"{path}/{new}")[0] == 404)
        for accept in ("application/json", METADATA, TABLE):
            assert listed(client, path, accept) == running
        client.hang_up()
        until("its next watch", lambda: gate.part.metric("muster_gate_watches") >= 1)
        assert ("DELETED", f"{namespace}/{running[0]}") not in client.events
        assert sorted(key.partition("/")[2] for key in client.state) == running
    gate.part.kill()
    gate.part.start()
    (tmp_path / "replica").mkdir()
    replica = started(control_plane, tmp_path / "replica")
    with replica.part:
        for one in (gate, replica):
            for accept in ("application/json", METADATA, TABLE):
                assert listed(one.client(), path, accept) == running
            assert one.client().ask(f"{path}/{running[0]}")[0] == 200
            assert one.client().ask(f"{path}/{new}")[0] == 404


def test_a_pod_that_was_sent_and_has_not_started_stays_and_one_that_was_not_is_held(
    gate: Gate, api: Api, namespace: str
) -> None:
    top = made(api, namespace, "web", 1, BOUND)
    path = f"/api/v1/namespaces/{namespace}/pods"
    sent = names(api, namespace, "web")
    with gate.client(path) as client:
        until("the pod", lambda: len(client.state) == 1)
        bind(api, top, None)
        api.merge(place(top), {"spec": {"replicas": 2}})
        until("the second pod", lambda: len(names(api, namespace, "web")) == 2)
        new = next(name for name in names(api, namespace, "web") if name not in sent)
        until("the new one to be held", lambda: client.ask(f"{path}/{new}")[0] == 404)
        for accept in ("application/json", METADATA, TABLE):
            assert listed(client, path, accept) == sent
        bind(api, top)
        until("both", lambda: len(client.state) == 2)
        assert "DELETED" not in [kind for kind, _ in client.events]


def test_a_held_pod_that_starts_all_the_same_is_shown(
    gate: Gate, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    made(api, namespace, "web", 1, {REQUIRED: "pp"})
    path = f"/api/v1/namespaces/{namespace}/pods"
    with gate.client(path) as client:
        until("its first list", lambda: client.relists == 1)
        assert client.state == {}
        make_nodes(1)
        until("the pod that a kubelet has started", lambda: len(client.state) == 1, 40)
        assert client.events[0][0] == "ADDED"
