"""`muster edge-gate` before a real API server, seen by kubectl and by clients that list and watch."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import socket
import ssl
import subprocess
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from live.api import Api, Plain, Refused, place, until
from live.binary import binary
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.gate_client import GateClient
from live.gate_site import (
    BINDING,
    DOMAIN,
    METADATA,
    PROTOBUF,
    REQUIRED,
    TABLE,
    Gate,
    bind,
    deployment,
    front_proxied,
    made,
    names,
    started,
    watched,
)

pytestmark = pytest.mark.usefixtures("crds", "rights")


def test_kubectl_get_w_sees_pods_come_when_they_are_released_and_go_when_they_are_held_strictly(
    strict_gate: Gate, api: Api, namespace: str
) -> None:
    gate = strict_gate
    made(api, namespace, "free", 1, {})
    top = made(api, namespace, "held", 2, {REQUIRED: "pp"})
    seen = subprocess.run(gate.kubectl("get", "pods", "-n", namespace), capture_output=True, text=True)
    assert seen.returncode == 0, seen.stderr
    assert "free-" in seen.stdout and "held-" not in seen.stdout
    command = gate.kubectl("get", "pods", "-n", namespace, "-w", "--output-watch-events")
    with watched(command) as reported:
        until("the pod that is free", lambda: any("free-" in line for line in reported))
        assert reported[0].split() == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        bind(api, top)
        until("both pods to come", lambda: sum(line.startswith("ADDED") and "held-" in line for line in reported) == 2)
        bind(api, top, None)
        until("both pods to go", lambda: sum(line.startswith("DELETED") and "held-" in line for line in reported) == 2)


def test_the_columns_of_a_table_come_with_the_first_pod_that_may_be_seen(gate: Gate, api: Api, namespace: str) -> None:
    top = made(api, namespace, "held", 1, {REQUIRED: "pp"})
    with watched(gate.kubectl("get", "pods", "-n", namespace, "--watch-only")) as reported:
        time.sleep(1.5)
        assert reported == []
        bind(api, top)
        until("the pod", lambda: len(reported) >= 2)
    assert reported[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert reported[1].startswith("held-")


def test_a_held_pod_is_not_found_and_the_gate_gives_the_reason(gate: Gate, api: Api, namespace: str) -> None:
    top = made(api, namespace, "held", 1, {REQUIRED: "pp"})
    name = names(api, namespace, "held")[0]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    client = gate.client()
    status, body, _ = client.ask(path)
    assert (status, body["reason"], body["message"]) == (404, "NotFound", f'pods "{name}" not found')
    parts = ("status", "ephemeralcontainers", "resize")
    assert [client.ask(f"{path}/{part}")[0] for part in parts] == [404] * 3
    assert client.ask(path, TABLE)[0] == 404
    pod = api.get(path)
    message = json.loads(gate.part.probe("/gate", pod)[1])
    assert message["decision"] == "hold"
    assert message["reason"].endswith("PropagationPolicy pp is required and not bound yet")
    bind(api, top)
    until("it to be released", lambda: client.ask(path)[0] == 200)
    assert [client.ask(f"{path}/{part}")[0] for part in parts] == [200] * 3
    assert json.loads(gate.part.probe("/gate", pod)[1]) == {"decision": "send", "reason": ""}


@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE, PROTOBUF])
def test_every_form_of_a_list_leaves_held_pods_out(gate: Gate, api: Api, namespace: str, accept: str) -> None:
    made(api, namespace, "free", 2, {})
    made(api, namespace, "held", 3, {REQUIRED: "pp"})
    status, body, kind = gate.client().ask(f"/api/v1/namespaces/{namespace}/pods", accept)
    assert status == 200 and kind.startswith("application/json")
    rows = body["rows"] if "rows" in body else body["items"]
    found = [row["object"]["metadata"]["name"] if "cells" in row else row["metadata"]["name"] for row in rows]
    assert sorted(found) == names(api, namespace, "free")
    if "rows" in body:
        bare = gate.client().ask(f"/api/v1/namespaces/{namespace}/pods", accept, includeObject="None")[1]
        assert [row["object"] for row in bare["rows"]] == [None, None]


def test_a_watch_list_keeps_its_end_bookmark(gate: Gate, api: Api, namespace: str) -> None:
    made(api, namespace, "free", 2, {})
    made(api, namespace, "held", 3, {REQUIRED: "pp"})
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    connection = HTTPSConnection(
        "127.0.0.1", gate.port, timeout=20, context=ssl.create_default_context(cafile=str(gate.ca))
    )
    headers = {"Authorization": f"Bearer {gate.plane.token}"}
    connection.request("GET", f"/api/v1/namespaces/{namespace}/pods?{query}", headers=headers)
    answer = connection.getresponse()
    events = [json.loads(answer.readline()) for _ in range(3)]
    connection.close()
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    assert events[2]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"


def test_a_watch_from_before_the_gate_must_list_again(gate: Gate, api: Api, namespace: str) -> None:
    query = {"watch": "1", "resourceVersion": "1"}
    connection = HTTPSConnection(
        "127.0.0.1", gate.port, timeout=20, context=ssl.create_default_context(cafile=str(gate.ca))
    )
    url = f"/api/v1/namespaces/{namespace}/pods?watch=1&resourceVersion={query['resourceVersion']}"
    connection.request("GET", url, headers={"Authorization": f"Bearer {gate.plane.token}"})
    event = json.loads(connection.getresponse().readline())
    connection.close()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_list_that_may_be_old_can_be_watched_from_while_no_pod_changes(
    control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path
) -> None:
    # As Go's reflectors list: from what the API server has at hand, which is as old as the last change of a pod.
    top = made(api, namespace, "held", 1, {REQUIRED: "pp"})
    api.merge(place(top), {"metadata": {"annotations": {"changed": "after the pods"}}})
    gate = started(control_plane, tmp_path)
    with gate.part, gate.client(resourceVersion="0") as client:
        until("its first list", lambda: client.relists >= 1)
        time.sleep(1.5)
        bind(api, top)
        until("the pod", lambda: ("ADDED", f"{namespace}/{names(api, namespace, 'held')[0]}") in client.events)
        assert client.relists == 1


def test_what_was_released_while_a_client_was_away_is_reported_when_it_comes_back(
    gate: Gate, api: Api, namespace: str
) -> None:
    top = made(api, namespace, "held", 3, {REQUIRED: "pp"})
    with gate.client(f"/api/v1/namespaces/{namespace}/pods") as client:
        until("its first list", lambda: client.relists == 1)
        client.hang_up()
        bind(api, top)
        until("the pods", lambda: len(client.state) == 3)
        assert client.relists == 1
        assert [kind for kind, _ in client.events][:3] == ["ADDED"] * 3


@pytest.mark.parametrize(("seed", "mode"), [(1, "--hold-strict"), (2, "--hold-strict"), (3, ""), (4, "")])
def test_a_replay_of_the_events_is_the_next_list(
    control_plane: ControlPlane, tmp_path: Path, api: Api, namespace: str, make_nodes: MakeNodes, seed: int, mode: str
) -> None:
    """Applications are bound, unbound, scaled and deleted, pods deleted, connections cut, in any order."""
    gate = started(control_plane, tmp_path, *filter(None, [mode]))
    with gate.part:
        replay(gate, api, namespace, make_nodes, seed, strict=bool(mode))


def replay(gate: Gate, api: Api, namespace: str, make_nodes: MakeNodes, seed: int, *, strict: bool) -> None:
    dice = random.Random(seed)
    make_nodes(2, prefix=f"edge{seed}-")
    path = f"/api/v1/namespaces/{namespace}/pods"
    metadata = gate.client(path)
    metadata.accept = METADATA
    clients = [
        gate.client(), gate.client(path), metadata, gate.client(fieldSelector=f"spec.nodeName=edge{seed}-1"),
        gate.client(path, labelSelector="app=b"),
    ]  # fmt: skip
    for client in clients:
        client.__enter__()
    try:
        tops: dict[str, Plain] = {}
        for _ in range(60):
            name = dice.choice("abcd")
            if name not in tops:
                labels = dice.choice([{REQUIRED: "pp"}, {REQUIRED: "pp", BINDING: "pp"}, {}])
                tops[name] = api.create(deployment(namespace, name, dice.randint(1, 4), labels))
                continue
            match dice.randint(0, 6):
                case 0 | 1:
                    api.merge(place(tops[name]), {"metadata": {"labels": {REQUIRED: "pp", BINDING: "pp"}}})
                case 2 | 3:
                    api.merge(place(tops[name]), {"metadata": {"labels": {REQUIRED: "pp", BINDING: None}}})
                case 4:
                    api.merge(place(tops[name]), {"spec": {"replicas": dice.randint(0, 4)}})
                case 5:
                    for pod in names(api, namespace, name)[:1]:
                        with contextlib.suppress(Refused):
                            api.delete(f"{path}/{pod}", {"gracePeriodSeconds": 0})
                case 6:
                    api.delete(place(tops.pop(name)), {"propagationPolicy": "Background"})
            if dice.random() < 0.3:
                dice.choice(clients).hang_up()
            time.sleep(dice.choice([0, 0, 0.02, 0.1]))
        for i, client in enumerate(clients):

            def settled(client: GateClient = client) -> bool:
                before = client.listed()
                return before == dict(client.state) == client.listed()

            until(f"client {i} to see what it would list", settled, 20, 0.3)
        free = {pod["metadata"]["name"] for pod in api.list(path) if _is_free(api, namespace, pod)}
        seen = {key.partition("/")[2] for key in clients[1].state}
        if strict:
            assert seen == free
        else:
            running = {pod["metadata"]["name"] for pod in api.list(path) if pod["status"].get("startTime")}
            assert free | running <= seen
    finally:
        for client in clients:
            client.__exit__()


def _is_free(api: Api, namespace: str, pod: Plain) -> bool:
    labels = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{pod['metadata']['labels']['app']}")
    given = labels["metadata"].get("labels", {})
    return REQUIRED not in given or given.get(BINDING) == given[REQUIRED]


def test_everything_else_goes_through_as_it_is(gate: Gate, api: Api, namespace: str) -> None:
    def kubectl(*arguments: str, given: str = "") -> str:
        done = subprocess.run(gate.kubectl(*arguments), input=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big", "namespace": namespace}}
    kubectl("create", "-f", "-", given=json.dumps({**config, "data": {"text": "x" * 500_000}}))
    assert api.get(place(config))["data"]["text"] == "x" * 500_000
    assert kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/configmaps/big").count("x") > 500_000
    kubectl("delete", "configmap", "big", "-n", namespace)
    assert api.gone(place(config))
    assert "Server Version" in kubectl("version")


def test_nothing_is_watched_over_a_websocket(gate: Gate, namespace: str) -> None:
    def upgraded(path: str) -> bytes:
        tls = ssl.create_default_context(cafile=str(gate.ca))
        with socket.create_connection(("127.0.0.1", gate.port), 10) as plain, tls.wrap_socket(
            plain, server_hostname="127.0.0.1"
        ) as stream:
            key = base64.b64encode(os.urandom(16)).decode()
            head = (
                f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gate.plane.token}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                "Origin: https://127.0.0.1\r\n\r\n"
            )
            stream.sendall(head.encode())
            stream.settimeout(10)
            return stream.recv(65536)

    assert upgraded(f"/api/v1/namespaces/{namespace}/pods?watch=1").startswith(b"HTTP/1.1 400")
    assert upgraded("/api/v1/namespaces?watch=1").startswith(b"HTTP/1.1 400")


def test_users_of_certificates_learn_what_they_need(control_plane: ControlPlane, tmp_path: Path) -> None:
    pki = control_plane.folder / "pki"
    user = (
        f"client-certificate-data: {base64.b64encode((pki / 'admin.crt').read_bytes()).decode()}, "
        f"client-key-data: {base64.b64encode((pki / 'admin.key').read_bytes()).decode()}"
    )

    def who(gate: Gate) -> subprocess.CompletedProcess[str]:
        gate.write_kubeconfig(user)
        command = [str(binary()), "kubectl", "--kubeconfig", str(gate.kubeconfig), "auth", "whoami", "-o", "json"]
        return subprocess.run(command, capture_output=True, text=True)

    alone = started(control_plane, tmp_path, "--client-ca-file", str(control_plane.ca))
    with alone.part:
        message = who(alone)
        assert message.returncode != 0
        client = GateClient(alone.port, alone.ca, "")
        assert client.ask("/api/v1/nodes")[0] == 401
    trusted = front_proxied(control_plane, tmp_path)
    with trusted.part:
        reported = who(trusted)
        assert reported.returncode == 0, reported.stderr
        about = json.loads(reported.stdout)["status"]["userInfo"]
        assert about["username"] == "admin" and "system:masters" in about["groups"]


def test_a_pod_in_the_wrong_edition_is_held_until_it_is_corrected(
    control_plane: ControlPlane, tmp_path: Path, api: Api, crds: None, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, prefix="bj", labels={"location": "beijing"})
    version = f"{DOMAIN}/v1alpha1"
    group = api.create({
        "apiVersion": version, "kind": "NodeGroup", "metadata": {"name": "beijing"},
        "spec": {"matchLabels": {"location": "beijing"}},
    })  # fmt: skip
    change = {"component": "Registry", "operator": "replace", "value": "beijing.registry.io"}
    api.create({
        "apiVersion": version, "kind": "OverridePolicy", "metadata": {"name": "op", "namespace": namespace},
        "spec": {"overrideRules": [{"targetNodeGroup": ["beijing"], "imageOverrider": [change]}]},
    })  # fmt: skip
    labels = {f"{DOMAIN}/{word}-overridepolicy": "op" for word in ("required", "binding")}
    gate = started(control_plane, tmp_path, "--hold-outdated", "--hold-strict")
    try:
        with gate.part, gate.client(f"/api/v1/namespaces/{namespace}/pods") as client:
            made(api, namespace, "web", 1, labels)
            path = f"/api/v1/namespaces/{namespace}/pods/{names(api, namespace, 'web')[0]}"
            until("it to run", lambda: api.get(path)["status"]["phase"] == "Running")
            until("it to be held", lambda: client.state == {} and client.ask(path)[0] == 404)
            api.call(
                "PATCH", path, {"spec": {"containers": [{"name": "nginx", "image": "beijing.registry.io/app:1"}]}},
                "application/strategic-merge-patch+json",
            )  # fmt: skip
            until("it to be sent", lambda: client.ask(path)[0] == 200 and len(client.state) == 1)
            api.merge(
                f"/apis/{version}/namespaces/{namespace}/overridepolicies/op",
                {"spec": {"overrideRules": [{"imageOverrider": [{**change, "value": "other.registry.io"}]}]}},
            )
            until("it to be held again", lambda: client.state == {} and client.ask(path)[0] == 404)
            # What no running pod could be given: it stays held, and the gate says what is missing.
            city = {"path": "/spec/containers/0/env", "operator": "add", "value": [{"name": "CITY", "value": "x"}]}
            api.merge(
                f"/apis/{version}/namespaces/{namespace}/overridepolicies/op",
                {"spec": {"overrideRules": [{"imageOverrider": [change], "plaintext": [city]}]}},
            )

            def message() -> str:
                return str(json.loads(gate.part.probe("/gate", api.get(path))[1])["reason"])

            until("the report", lambda: "spec/containers/nginx/env is not that of node group beijing" in message())
            assert client.state == {}
    finally:
        api.delete(place(group))
