"""`muster dashboard` on a real control plane, under an account that may only read."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
import urllib3

from builders.manifests import pod
from live.accounts import account_in
from live.api import Api, Plain, Refused, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.part_process import Part
from muster.config.loader import DEFAULT

pytestmark = pytest.mark.usefixtures("crds")
WRITTEN = "0/2 nodes are available: written by the test"
MAX_EVENT_S = 1.0  # on a busy machine; tests/unit/sim/dashboard measures the 100 ms


def get(address: str, path: str) -> Plain:
    answer = urllib3.request("GET", f"{address.rstrip('/')}{path}", timeout=60)
    assert answer.status == 200, answer.data
    found: Plain = answer.json()
    return found


def causes(address: str) -> dict[str, str]:
    """Waiting pod → why."""
    found = get(address, "/api/v1/waiting")["causes"]
    return {name: cause["reason"] for cause in found for name in cause["pods"]}


def test_it_shows_what_the_scheduler_wrote_and_follows_the_cluster(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    names = [one["metadata"]["name"] for one in make_nodes(2)]
    meta = {"name": "muster-scheduler", "namespace": namespace}
    api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"muster-scheduler.conf": DEFAULT}})
    account = account_in(control_plane, namespace, "dashboard")
    path = f"/api/v1/namespaces/{namespace}/pods"
    picky = {"schedulerName": "muster", "nodeSelector": {"pool": "none"}, "container": {"image": "app:1"}}
    for name in ("written", "computed"):
        api.create(pod(name, namespace=namespace, **picky))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WRITTEN}
    api.merge(f"{path}/written/status", {"status": {"conditions": [condition]}})
    # As in a pod of this namespace.
    applications = ("--applications", f"{namespace}/groupmanagement-config")
    given = ("-c", f"configmap:{namespace}/muster-scheduler", "--port", "0", *applications)
    with Part("dashboard", account, *given) as part:
        address = part.started["dashboard"]
        until("the first result", lambda: urllib3.request("GET", f"{address}readyz", timeout=5).status == 200)
        status = get(address, "/api/v1/status")
        assert (status["kind"], status["configuration"]) == ("cluster", given[1])
        found = causes(address)
        assert found[f"{namespace}/written"] == WRITTEN
        assert "didn't match" in found[f"{namespace}/computed"] and "(computed now" in found[f"{namespace}/computed"]
        explained = get(address, f"/api/v1/explain?pod={namespace}/computed")
        assert not any(explained["nodes"][name]["feasible"] for name in names)

        with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), 10) as stream:
            stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until("the first event", lambda: b"event: update" in stream.recv(1 << 16))
            time.sleep(0.5)
            stream.setblocking(False)
            with suppress(BlockingIOError):
                stream.recv(1 << 16)
            stream.settimeout(10)
            api.create(pod("third", namespace=namespace, **picky))
            began = time.monotonic()
            data = stream.recv(1 << 16)
            assert time.monotonic() - began < MAX_EVENT_S
            assert json.loads(data.partition(b"data: ")[2].partition(b"\n")[0])["changes"] > 0
        until("the new pod", lambda: f"{namespace}/third" in causes(address))
        cycle = get(address, "/api/v1/status")["cycles"]
        assert get(address, f"/api/v1/decisions?at={cycle}")["pending"]
        refused = [entry["msg"] for entry in part.log() if "forbidden" in str(entry).lower()]
        assert part.stop() == 0
    assert refused == []

    own = Api(control_plane.url, control_plane.ca, api.token_of(namespace, "muster-dashboard"))
    for what in ("secrets", "serviceaccounts", f"namespaces/{namespace}/secrets"):
        with pytest.raises(Refused, match="403"):
            own.list(f"/api/v1/{what}")
    for attempt in (
        lambda: own.create(pod("fourth", namespace=namespace)), lambda: own.delete(f"{path}/third"),
        lambda: own.merge(f"{path}/third", {"metadata": {"labels": {"a": "b"}}}),
        lambda: own.merge(f"{path}/third/status", {"status": {"phase": "Failed"}}),
    ):  # fmt: skip
        with pytest.raises(Refused, match="403"):
            attempt()
