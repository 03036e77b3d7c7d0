"""The listeners that the hostile requests are played to. A new one joins by a line in LISTENERS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from live.accounts import account_in
from live.api import Plain
from live.conftest import HOME
from live.controlplane import ControlPlane
from live.gate_site import front_proxied
from live.hostile.player import Listener
from live.node_groups import Extender
from live.part_process import Part, free_port
from live.webhook_site import unregister, webhook_part
from muster.cli.install import PARTS

POD: Plain = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@contextmanager
def _gate(plane: ControlPlane, folder: Path) -> Iterator[Listener]:
    gate = front_proxied(plane, folder)
    token = f"Authorization: Bearer {plane.token}"
    with gate.part:
        trusted, certified = (ssl.create_default_context(cafile=str(gate.ca)) for _ in range(2))
        certified.load_cert_chain(*plane.authority.client("eve", "hostile"))
        tls = dict.fromkeys(("token", "anybody", "nobody"), trusted) | {"certificate": certified}
        asked = _request("GET", "/api/v1/pods?limit=1", token)
        credentials = {"token": token, "anybody": token}
        yield Listener(
            "gate", gate.part, gate.port, "/api/v1/pods", asked, tls, credentials, _memory("edge-gate"), forwards=True,
            ends_s=45,
        )  # fmt: skip


@contextmanager
def _extender(plane: ControlPlane, folder: Path) -> Iterator[Listener]:
    certificate, key = plane.authority.server("hostile-extender")
    files = ("--tls-cert-file", str(certificate), "--tls-private-key-file", str(key), "--client-ca-file", str(plane.ca))
    port = free_port()
    account = plane.kubeconfig_of(HOME, "muster-extender")
    with Extender(account, port, HOME, "--no-leader-elect", *files, wait=False) as part:
        body = json.dumps({"Pod": POD, "NodeNames": ["n"]})
        yield _certified("extender", plane, part, port, "/filter", body)


@contextmanager
def _webhook(plane: ControlPlane, folder: Path) -> Iterator[Listener]:
    port = free_port()
    given = ("--no-leader-elect", "--client-ca-file", str(plane.ca))
    with webhook_part(account_in(plane, HOME, "webhook"), HOME, port, *given) as part:
        request = {"uid": "u", "operation": "CREATE", "namespace": "default", "object": POD, "dryRun": True,
                   "kind": {"group": "", "version": "v1", "kind": "Pod"},
                   "resource": {"group": "", "version": "v1", "resource": "pods"}}  # fmt: skip
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        yield _certified("webhook", plane, part, port, "/mutate", body)
    unregister(plane.api)


@contextmanager
def _verdicts(plane: ControlPlane, folder: Path) -> Iterator[Listener]:
    gate = front_proxied(plane, folder, "--gate-port", "0")
    with gate.part:
        yield _certified("edge-gate", plane, gate.part, int(gate.part.started["gate"]), "/gate", json.dumps(POD))


@contextmanager
def _dashboard(plane: ControlPlane, folder: Path) -> Iterator[Listener]:
    certificate, key = plane.authority.server("hostile-dashboard")
    (folder / "token").write_text(plane.token)
    given = ("--token-file", str(folder / "token"), "--tls-cert-file", str(certificate), "--tls-private-key-file",
             str(key), "--allowed-host", "x", "--port", "0")  # fmt: skip
    with Part("dashboard", account_in(plane, HOME, "dashboard"), *given) as part:
        port = int(str(part.started["dashboard"]).rstrip("/").rpartition(":")[2])
        tls = dict.fromkeys(("token", "anybody", "nobody", "certificate"), ssl.create_default_context(cafile=plane.ca))
        token = f"Authorization: Bearer {plane.token}"
        asked, credentials = _request("GET", "/api/v1/status", token), {"token": token, "anybody": token}
        yield Listener(
            "dashboard", part, port, "/api/v1/status", asked, tls, credentials, _memory("dashboard"), ends_s=20
        )


LISTENERS: dict[str, Callable[[ControlPlane, Path], AbstractContextManager[Listener]]] = {
    "gate": _gate,
    "webhook": _webhook,
    "extender": _extender,
    "gate-verdicts": _verdicts,
    "dashboard": _dashboard,
}


def _certified(name: str, plane: ControlPlane, part: Part, port: int, path: str, body: str) -> Listener:
    """A listener whose clients have the certificate of kube-scheduler or of the API server."""
    anonymous, certified = (ssl.create_default_context() for _ in range(2))
    for tls in (anonymous, certified):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    pki = plane.folder / "pki"
    certified.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    tls_of = dict.fromkeys(("token", "anybody", "certificate"), certified) | {"nobody": anonymous}
    asked = _request("POST", path, "Content-Type: application/json", body)
    return Listener(name, part, port, path, asked, tls_of, {}, _memory(name), ends_s=45)


def _request(method: str, target: str, header: str, body: str = "") -> bytes:
    length = f"Content-Length: {len(body)}"
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n{header}\r\n{length}\r\nConnection: close\r\n\r\n{body}".encode()


def _memory(verb: str) -> int:
    """What the manifests allow it."""
    return int(dict(PARTS[verb].limits)["memory"].removesuffix("Gi")) * 1024
