"""`muster edge-gate` on the wire: every form of a watch, what is passed on, kinds by configuration, certificates."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from builders.manifests import definition, pod
from live.api import Api, Plain, place, until
from live.conftest import HOME, MakeNodes, served
from live.controlplane import ControlPlane
from live.gate_site import BINDING, METADATA, PROTOBUF, REQUIRED, TABLE, Gate, bind, made, names, started

pytestmark = pytest.mark.usefixtures("crds", "rights")
ENDS = "k8s.io/initial-events-end"


def named(event: Plain) -> str:
    """The pod of an event, in whatever form."""
    reported = event["object"]
    meta = reported["rows"][0]["object"]["metadata"] if reported["kind"] == "Table" else reported["metadata"]
    return str(meta["name"])


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "Pod"), (PROTOBUF, "Pod"), (f"{PROTOBUF},application/json", "Pod"),
        (METADATA.replace("List;", ";"), "PartialObjectMetadata"),
        (METADATA.replace("List;", ";").replace("application/json", PROTOBUF), "PartialObjectMetadata"),
        (TABLE, "Table"),
    ],
)  # fmt: skip
def test_every_form_of_a_watch_leaves_held_pods_out_and_sends_their_release(
    gate: Gate, api: Api, namespace: str, accept: str, kind: str
) -> None:
    top = made(api, namespace, "held", 1, {REQUIRED: "pp"})
    made(api, namespace, "free", 1, {})
    url = f"/api/v1/namespaces/{namespace}/pods?watch=1&allowWatchBookmarks=true"
    with gate.asked(url, accept) as answer:
        assert answer.headers["Content-Type"].startswith("application/json")
        first = json.loads(answer.readline())
        bind(api, top)
        reported: list[Plain] = []
        # The API server sends bookmarks of its own; one follows what the gate sends.
        while [event["type"] for event in reported[-2:]] != ["ADDED", "BOOKMARK"]:
            reported.append(json.loads(answer.readline()))
    assert (first["type"], first["object"]["kind"]) == ("ADDED", kind)
    assert named(first) == names(api, namespace, "free")[0]
    released = [event for event in reported if event["type"] == "ADDED"]
    assert [named(event) for event in released] == names(api, namespace, "held")
    if kind == "Table":
        assert [column["name"] for column in first["object"]["columnDefinitions"]][:2] == ["Name", "Ready"]
        assert not released[0]["object"]["columnDefinitions"]


def test_a_client_that_continues_from_the_bookmark_after_a_release_gets_no_second_event(
    gate: Gate, api: Api, namespace: str
) -> None:
    top = made(api, namespace, "held", 1, {REQUIRED: "pp"})
    url = f"/api/v1/namespaces/{namespace}/pods"
    version = gate.client().ask(url)[1]["metadata"]["resourceVersion"]
    with gate.asked(f"{url}?watch=1&allowWatchBookmarks=true&resourceVersion={version}") as answer:
        bind(api, top)
        events = [json.loads(answer.readline()) for _ in range(2)]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    mark = events[1]["object"]["metadata"]["resourceVersion"]
    assert int(mark) >= int(version)
    with gate.asked(f"{url}?watch=1&resourceVersion={mark}&timeoutSeconds=2") as answer:
        again = [json.loads(line) for line in answer.read().splitlines()]
    assert [event["type"] for event in again] in ([], ["ADDED"]), "sent at most once more"


@pytest.mark.parametrize("where", ["/api/v1/pods", "/api/v1/namespaces/{namespace}/pods"])
def test_a_watch_list_by_field_selector_has_only_what_may_be_seen_and_its_end(
    strict_gate: Gate, api: Api, namespace: str, make_nodes: MakeNodes, where: str
) -> None:
    node = make_nodes(1, prefix="edge-")[0]["metadata"]["name"]
    made(api, namespace, "free", 2, {})
    made(api, namespace, "held", 2, {REQUIRED: "pp"})
    path = f"/api/v1/namespaces/{namespace}/pods"
    until("all on the node", lambda: all(p["spec"].get("nodeName") == node for p in api.list(path)))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    selected = f"{where.format(namespace=namespace)}?{query}&fieldSelector=spec.nodeName%3D{node}"
    events = strict_gate.events(selected, 3)
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    assert sorted(map(named, events[:2])) == names(api, namespace, "free")
    assert events[2]["object"]["metadata"]["annotations"][ENDS] == "true"


def test_a_watch_of_something_else_streams_as_it_comes(gate: Gate, api: Api, namespace: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": namespace}}
    with gate.asked(f"/api/v1/namespaces/{namespace}/configmaps?watch=1&fieldSelector=metadata.name%3Done") as answer:
        began = time.monotonic()
        api.create(config)
        event = json.loads(answer.readline())
        assert event["object"]["metadata"]["name"] == "one" and time.monotonic() < began + 2


def test_exec_says_through_the_gate_what_it_says_without(
    gate: Gate, control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    """No kubelet runs: the API server's answer to the upgraded request is that it cannot reach one."""
    make_nodes(1)
    made(api, namespace, "web", 1, {})
    name = names(api, namespace, "web")[0]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    until("it to run", lambda: api.get(path)["status"]["phase"] == "Running")
    command = ("exec", "-n", namespace, name, "--", "true")
    direct = control_plane.kubectl(*command)
    through = subprocess.run(gate.kubectl(*command), capture_output=True, text=True)
    assert through.returncode == direct.returncode != 0
    assert through.stderr.replace("127.0.0.1", "") == direct.stderr.replace("127.0.0.1", "")


def test_a_caller_without_a_token_learns_what_to_do(gate: Gate) -> None:
    tls = ssl.create_default_context(cafile=str(gate.ca))
    connection = HTTPSConnection("127.0.0.1", gate.port, timeout=20, context=tls)
    connection.request("GET", "/api/v1/pods")
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert (answer.status, body["kind"], body["reason"]) == (401, "Status", "Unauthorized")
    assert "use a token, or start `muster edge-gate` with --client-ca-file and --front-proxy-cert" in body["message"]


def test_pods_of_kinds_that_the_config_map_names_are_held_and_released_as_it_changes(
    strict_gate: Gate, api: Api, namespace: str
) -> None:
    """The definition is there, the ConfigMap comes later, and goes again; clients see the pods come and go."""
    clone_sets = api.create(definition("apps.gate.example", "CloneSet"))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "gate-clonesets"}}
    may = {"apiGroups": ["apps.gate.example"], "resources": ["clonesets"], "verbs": ["get", "list", "watch"]}
    account = {"kind": "ServiceAccount", "name": "muster-edge-gate", "namespace": HOME}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gate-clonesets"}
    granted = [
        api.create({**role, "kind": "ClusterRole", "rules": [may]}),
        api.create({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [account]}),
    ]
    config: Plain = {"apiVersion": "v1", "kind": "ConfigMap"}
    config["metadata"] = {"name": "groupmanagement-config", "namespace": HOME}
    until("it to be served", lambda: served(api, "/apis/apps.gate.example/v1/clonesets"))
    time.sleep(2)
    top = api.create({
        "apiVersion": "apps.gate.example/v1", "kind": "CloneSet",
        "metadata": {"name": "shop", "namespace": namespace, "labels": {REQUIRED: "pp"}}, "spec": {"replicas": 2},
    })  # fmt: skip
    owner = {"apiVersion": "apps.gate.example/v1", "kind": "CloneSet", "name": "shop", "controller": True}
    owner["uid"] = top["metadata"]["uid"]
    for i in range(2):
        owned = {"ownerReferences": [owner]}
        api.create(pod(
            f"shop-{i}", namespace=namespace, meta=owned, container={"image": "i"}, terminationGracePeriodSeconds=0
        ))  # fmt: skip
    path = f"/apis/apps.gate.example/v1/namespaces/{namespace}/clonesets/shop"
    try:
        with strict_gate.client(f"/api/v1/namespaces/{namespace}/pods") as client:
            until("both, of a kind that nobody knows", lambda: len(client.state) == 2)
            entry = "applications:\n- {group: apps.gate.example, version: v1, kind: CloneSet}\n"
            api.create({**config, "data": {"config.yaml": entry}})
            until("both to be held", lambda: client.state == {})
            assert client.ask(f"/api/v1/namespaces/{namespace}/pods/shop-0")[0] == 404
            api.merge(path, {"metadata": {"labels": {BINDING: "pp"}}})
            until("both to be let go", lambda: len(client.state) == 2)
            api.merge(path, {"metadata": {"labels": {BINDING: None}}})
            until("both to be held again", lambda: client.state == {})
            api.delete(place(config))
            until("both, of a kind that is not configured any more", lambda: len(client.state) == 2)
            assert client.relists == 1
            assert [kind for kind, _ in client.events].count("DELETED") == 4
    finally:
        if not api.gone(place(config)):
            api.delete(place(config))
        for one in (*granted, clone_sets):
            api.delete(place(one))


def test_a_rotated_certificate_is_used_without_a_restart(control_plane: ControlPlane, tmp_path: Path) -> None:
    files = [tmp_path / "tls.crt", tmp_path / "tls.key"]

    def rotate() -> None:
        for one, file in zip(control_plane.authority.server("gate"), files, strict=True):
            file.write_bytes(one.read_bytes())

    rotate()
    given = ("--tls-cert-file", str(files[0]), "--tls-private-key-file", str(files[1]))
    gate = started(control_plane, tmp_path, *given)
    gate.ca = control_plane.ca
    with gate.part, gate.client() as client:
        until("its first list", lambda: client.relists == 1)
        before = ssl.get_server_certificate(("127.0.0.1", gate.port))
        rotate()
        assert ssl.get_server_certificate(("127.0.0.1", gate.port)) != before
        client.hang_up()
        assert client.ask("/api/v1/pods")[0] == 200


def test_many_clients_at_once_are_answered(gate: Gate, api: Api, namespace: str) -> None:
    """Fifty clients ask at the same time; nobody waits for another, and nothing is mixed up."""
    made(api, namespace, "free", 3, {})
    made(api, namespace, "held", 3, {REQUIRED: "pp"})
    wanted = names(api, namespace, "free")
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(5):
            body = gate.client().ask(f"/api/v1/namespaces/{namespace}/pods")[1]
            seen = sorted(item["metadata"]["name"] for item in body["items"])
            if seen != wanted:
                wrong.append(seen)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert wrong == []
