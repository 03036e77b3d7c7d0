"""Attacks on `muster edge-gate` with a front-proxy certificate, by a user whose certificate grants nothing."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.api import Api
from live.conftest import HOME, RIGHTS
from live.controlplane import ControlPlane
from live.gate_site import Gate, front_proxied
from live.hostile.corpus import ROOT
from muster.cli.install import PARTS, Settings, installation
from muster.config.loader import DEFAULT

pytestmark = pytest.mark.usefixtures("crds", "rights")
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
FORGED = f"X-Remote-User: {ROOT}\r\nX-Remote-Group: system:masters\r\n"


class Attacker:
    """Raw bytes over TLS, with a client certificate of a user without rights."""

    def __init__(self, gate: Gate) -> None:
        self._port = gate.port
        self._tls = ssl.create_default_context(cafile=str(gate.ca))
        self._tls.load_cert_chain(*gate.plane.authority.client("eve", "nobody"))

    def send(self, *parts: str) -> bytes:
        """Each part after the first answer to the one before; everything that came back."""
        return asyncio.run(self._send(parts))

    async def _send(self, parts: tuple[str, ...]) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        got = b""
        try:
            for part in parts:
                writer.write(part.encode())
                while piece := await asyncio.wait_for(reader.read(1 << 16), 3):
                    got += piece
        except (TimeoutError, OSError):
            pass
        finally:
            writer.transport.abort()
        return got


@pytest.fixture
def gate(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Gate]:
    one = front_proxied(control_plane, tmp_path)
    with one.part:
        yield one


@pytest.fixture
def secret(api: Api, namespace: str) -> str:
    meta = {"name": "canary", "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"text": "canary"}})
    return f"/api/v1/namespaces/{namespace}/secrets/canary"


def creation(name: str) -> tuple[str, str]:
    """The head's last lines and the body of a request that makes the attacker cluster-admin."""
    group = "rbac.authorization.k8s.io"
    body = json.dumps({
        "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}],
    })  # fmt: skip
    return f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n", body


def test_no_request_follows_an_upgrade_that_was_not_granted(
    gate: Gate, control_plane: ControlPlane, api: Api, secret: str
) -> None:
    attacker = Attacker(gate)
    upgrade = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: nonsense\r\n\r\n"
    read = f"GET {secret} HTTP/1.1\r\nHost: x\r\n{FORGED}\r\n"
    lines, body = creation("by-upgrade")
    grant = f"POST {BINDINGS} HTTP/1.1\r\nHost: x\r\n{FORGED}{lines}\r\n{body}"
    attacks = ((upgrade + read,), (upgrade, read), (upgrade + grant,), (upgrade, grant))
    answers = [attacker.send(*attack) for attack in attacks]
    # A path that may be upgraded: the API server refuses, and the connection ends there as well.
    namespace = secret.split("/")[4]
    exec_ = f"POST /api/v1/namespaces/{namespace}/pods/none/exec?command=x HTTP/1.1\r\nHost: x\r\n"
    refused = attacker.send(f"{exec_}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n{read}")
    assert not any(b"Y2FuYXJ5" in got for got in (*answers, refused)), "the Secret was read"
    assert api.gone(f"{BINDINGS}/by-upgrade")
    assert control_plane.forged() == []
    for got in answers:
        assert got.startswith(b"HTTP/1.1 400") and got.count(b"HTTP/1.1") == 1, got
    assert refused.startswith(b"HTTP/1.1 403") and refused.count(b"HTTP/1.1") == 1, refused
    assert b"connection: close" in refused.lower(), refused


@pytest.mark.parametrize("upgrade", ["Connection: Upgrade\r\nUpgrade: nonsense\r\n", ""])
@pytest.mark.parametrize("where", ["target", "value"])
def test_a_bare_line_feed_does_not_begin_a_header(
    gate: Gate, control_plane: ControlPlane, api: Api, secret: str, where: str, upgrade: str
) -> None:
    attacker = Attacker(gate)
    lines, body = creation("by-line-feed")
    forged = FORGED.replace("\r\n", "\n")
    head = {
        "target": "{0} {1} HTTP/1.1\n" + forged + "A: HTTP/1.1\r\nHost: x\r\n",
        "value": "{0} {1} HTTP/1.1\r\nHost: x\r\nA: b\n" + forged.rstrip() + "\r\n",
    }[where]
    read = attacker.send(head.format("GET", secret) + upgrade + "\r\n")
    granted = attacker.send(head.format("POST", BINDINGS) + lines + upgrade + "\r\n" + body)
    assert b"Y2FuYXJ5" not in read, "the Secret was read"
    assert api.gone(f"{BINDINGS}/by-line-feed")
    assert control_plane.forged() == []
    assert read.startswith(b"HTTP/1.1 400") and granted.startswith(b"HTTP/1.1 400"), (read, granted)


def test_it_does_not_start_without_knowing_which_headers_are_trusted(control_plane: ControlPlane) -> None:
    pki = control_plane.folder / "pki"
    files = ["--client-ca-file", "ca.crt", "--front-proxy-cert", "front-proxy.crt"]
    files += ["--front-proxy-key", "front-proxy.key"]
    # The extender's account may not read the ConfigMap.
    account = control_plane.kubeconfig_of(HOME, "muster-extender")
    program = [sys.executable, "-c", "from muster.cli import main; main()", "edge-gate", "--kubeconfig", str(account)]
    ports = ["--proxy-port", "0", "--metrics-port", "0"]
    ended = subprocess.run([*program, *ports, *files], capture_output=True, text=True, cwd=pki, timeout=60)
    assert ended.returncode == 2
    assert "the ConfigMap kube-system/extension-apiserver-authentication cannot be read" in ended.stderr
    assert "bind the Role extension-apiserver-authentication-reader" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_headers_are_removed_that_this_api_server_trusts(tmp_path: Path) -> None:
    named = {"username": "X-Custom-User", "group": "X-Custom-Group", "uid": "X-Remote-Uid,X-Custom-Uid"}
    flags = [f"--requestheader-{kind}-headers={name}" for kind, name in named.items()]
    flags.append("--requestheader-extra-headers-prefix=X-Custom-Extra-")
    with ControlPlane(parts=("etcd", "kube-apiserver"), flags={"kube-apiserver": flags}) as plane:
        for one in installation(Settings(HOME, "muster:test", DEFAULT), [PARTS["edge-gate"]]):
            if one["kind"] in RIGHTS:
                plane.api.apply(one)
        gate = front_proxied(plane, tmp_path)
        body = '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        with gate.part:
            got = Attacker(gate).send(
                "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                "Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nx-custom-user: {ROOT}\r\nX-Custom-Group: system:masters\r\n"
                f"X-Custom-Uid: 0\r\nX-Custom-Extra-Scopes: all\r\n\r\n{body}"
            )
        reported = json.loads(got.partition(b"\r\n\r\n")[2])["status"]["userInfo"]
        assert reported == {"username": "eve", "groups": ["nobody", "system:authenticated"]}
        assert plane.forged() == []
