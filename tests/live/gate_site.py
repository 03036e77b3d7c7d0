"""What tests of `muster edge-gate` share: the gate before a control plane, applications, and what kubectl prints."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path

from live.api import Api, Plain, place, until
from live.binary import binary
from live.conftest import HOME
from live.controlplane import ControlPlane
from live.gate_client import GateClient
from live.node_groups import template, workload
from live.part_process import Part

DOMAIN = "groupmanagement.kubeedge.io"
REQUIRED, BINDING = f"{DOMAIN}/required-propagationpolicy", f"{DOMAIN}/binding-propagationpolicy"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class Gate:
    """The part, and how its clients reach it."""

    def __init__(self, part: Part, plane: ControlPlane, folder: Path) -> None:
        self.part, self.plane, self.folder = part, plane, folder
        self.ca = folder / "gate-ca.crt"
        self.kubeconfig = folder / "gate-kubeconfig"

    @property
    def port(self) -> int:
        return int(self.part.started["port"])

    def client(self, path: str = "/api/v1/pods", **query: str) -> GateClient:
        return GateClient(self.port, self.ca, self.plane.token, path, **query)

    @contextlib.contextmanager
    def asked(self, path: str, accept: str = "application/json") -> Iterator[HTTPResponse]:
        """One request whose answer is read as it comes."""
        tls = ssl.create_default_context(cafile=str(self.ca))
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=20, context=tls)
        headers = {"Authorization": f"Bearer {self.plane.token}", "Accept": accept}
        connection.request("GET", path, headers=headers)
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def events(self, path: str, count: int, accept: str = "application/json") -> list[Plain]:
        """The first events of a watch."""
        with self.asked(path, accept) as answer:
            return [json.loads(answer.readline()) for _ in range(count)]

    def kubectl(self, *arguments: str) -> list[str]:
        self.write_kubeconfig(f"token: {self.plane.token}")
        return [str(binary()), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]

    def write_kubeconfig(self, user: str) -> None:
        authority = base64.b64encode(self.ca.read_bytes()).decode()
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: gate\n"
            f'clusters: [{{name: gate, cluster: {{server: "https://127.0.0.1:{self.port}", '
            f"certificate-authority-data: {authority}}}}}]\n"
            f"users: [{{name: gate, user: {{{user}}}}}]\n"
            "contexts: [{name: gate, context: {cluster: gate, user: gate}}]\n",
            encoding="utf-8",
        )


def started(plane: ControlPlane, folder: Path, *arguments: str) -> Gate:
    """With nothing but the rights that `muster manifests` gives it."""
    own = plane.kubeconfig_of(HOME, "muster-edge-gate")
    applications = ("--applications", f"{HOME}/groupmanagement-config")
    files = ("--proxy-port", "0", "--write-ca-file", str(folder / "gate-ca.crt"))
    return Gate(Part("edge-gate", own, *applications, *files, *arguments), plane, folder)


def front_proxied(plane: ControlPlane, folder: Path, *arguments: str) -> Gate:
    """A gate that speaks for users with a client certificate."""
    pki = plane.folder / "pki"
    files = ("--front-proxy-cert", str(pki / "front-proxy.crt"), "--front-proxy-key", str(pki / "front-proxy.key"))
    return started(plane, folder, "--client-ca-file", str(plane.ca), *files, *arguments)


def deployment(namespace: str, name: str, replicas: int, labels: dict[str, str]) -> Plain:
    return workload("Deployment", namespace, replicas, labels, name, template=template(name, "app:1"))


def made(
    api: Api, namespace: str, name: str, replicas: int, labels: dict[str, str], given: Plain | None = None
) -> Plain:
    """A Deployment whose pods are there."""
    top = api.create(given or deployment(namespace, name, replicas, labels))
    until(f"{replicas} pods of {name}", lambda: len(names(api, namespace, name)) == replicas)
    return top


def names(api: Api, namespace: str, app: str) -> list[str]:
    found = api.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}")
    return sorted(pod["metadata"]["name"] for pod in found)


def bind(api: Api, top: Plain, policy: str | None = "pp") -> None:
    api.merge(place(top), {"metadata": {"labels": {BINDING: policy}}})


@contextlib.contextmanager
def watched(command: list[str]) -> Iterator[list[str]]:
    """The lines that the command has printed so far; it is ended with the block."""
    reported: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                reported.append(line)

        threading.Thread(target=read, daemon=True).start()
        try:
            yield reported
        finally:
            process.terminate()
