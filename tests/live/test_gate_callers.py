"""POST /gate of `muster edge-gate`: only authenticated callers learn which policies an application waits for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import urllib3

from live.api import Api
from live.controlplane import ControlPlane
from live.gate_site import REQUIRED, made, names, started

pytestmark = pytest.mark.usefixtures("crds", "rights")


def test_beyond_loopback_it_answers_only_clients_with_a_certificate(
    control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path
) -> None:
    certificate, key = control_plane.authority.client("cloudcore", "nobody")
    gate = started(
        control_plane, tmp_path, "--metrics-host", "0.0.0.0", "--gate-port", "0", "--client-ca-file",
        str(control_plane.ca),
    )  # fmt: skip
    with gate.part:
        made(api, namespace, "held", 1, {REQUIRED: "pp"})
        pod = api.get(f"/api/v1/namespaces/{namespace}/pods/{names(api, namespace, 'held')[0]}")
        status, message = gate.part.probe("/gate", pod)
        assert status == 403 and "pp" not in message and "--gate-port" in message
        url = f"https://127.0.0.1:{gate.part.started['gate']}"
        with urllib3.PoolManager(ca_certs=str(gate.ca)) as anyone:
            answer = anyone.request("POST", f"{url}/gate", body=b"{}")
            assert answer.status == 401, answer.data
            answer = anyone.request("POST", f"{url}/gate", body=json.dumps(pod).encode().ljust(2000))
            assert answer.status == 413 and b"pp" not in answer.data, answer.data
        with urllib3.PoolManager(ca_certs=str(gate.ca), cert_file=str(certificate), key_file=str(key)) as caller:
            answer = caller.request("POST", f"{url}/gate", body=json.dumps(pod).encode())
            assert (answer.status, answer.json()["decision"]) == (200, "hold")
            assert answer.json()["reason"].endswith("PropagationPolicy pp is required and not bound yet")
            assert caller.request("POST", f"{url}/gate", body=b"[]").status == 400
            assert caller.request("GET", f"{url}/gate").status == 404
