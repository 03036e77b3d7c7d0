"""Every way into a cluster that a kubeconfig or a pod knows, tried with a real API server."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from kubernetes.config import incluster_config

from live.api import Api, Plain
from live.controlplane import ControlPlane
from muster.kube import Access, Client, NoAccess, config, load
from muster.store import errors

ME = "system:serviceaccount:default:default"
ADMIN = "admin"


def kubeconfig(folder: Path, plane: ControlPlane, user: Plain, name: str = "config", **cluster: object) -> Path:
    path = folder / name
    there = {"server": plane.url, "certificate-authority": str(plane.ca), **cluster}
    path.write_text(
        yaml.safe_dump({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {key: value for key, value in there.items() if value is not None}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }),
        encoding="utf-8",
    )  # fmt: skip
    return path


async def asked(client: Client) -> str:
    """Who the API server takes us for."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    return str(json.loads(answer)["status"]["userInfo"]["username"])


def who(access: Access) -> str:
    async def ask() -> str:
        async with Client(access) as client:
            return await asked(client)

    return asyncio.run(ask())


def plugin(folder: Path, status: str) -> Plain:
    """An exec plugin that answers with the status that the expression makes."""
    program = folder / "plugin"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, pathlib\n"
        'info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])\n'
        f'print(json.dumps({{"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {status}}}))\n'
    )
    program.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}


@pytest.fixture
def token(api: Api) -> str:
    return api.token_of("default", "default")


def test_a_token_and_a_file_with_one(control_plane: ControlPlane, tmp_path: Path, token: str) -> None:
    assert who(load(str(kubeconfig(tmp_path, control_plane, {"token": token})))) == ME
    (tmp_path / "token").write_text(token)
    assert who(load(str(kubeconfig(tmp_path, control_plane, {"tokenFile": "token"})))) == ME


def test_client_certificates_as_data_and_as_files(control_plane: ControlPlane, tmp_path: Path) -> None:
    assert who(load(str(control_plane.kubeconfig))) == ADMIN
    pki = control_plane.folder / "pki"
    user = {"client-certificate": str(pki / "admin.crt"), "client-key": str(pki / "admin.key")}
    assert who(load(str(kubeconfig(tmp_path, control_plane, user)))) == ADMIN


def test_a_token_that_was_rotated_in_its_file(
    control_plane: ControlPlane, tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "MIN_RELOAD_PERIOD_S", 0.0)
    (tmp_path / "token").write_text("not.a.token")
    access = load(str(kubeconfig(tmp_path, control_plane, {"tokenFile": "token"})))
    (tmp_path / "token").write_text(token)
    assert who(access) == ME


def test_a_plugins_token_until_it_expires(
    control_plane: ControlPlane, tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "HEADER_CACHE_S", 0.0)
    (tmp_path / "token").write_text("not.a.token")
    soon = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = f'{{"token": pathlib.Path("{tmp_path}/token").read_text(), "expirationTimestamp": "{soon}"}}'
    access = load(str(kubeconfig(tmp_path, control_plane, plugin(tmp_path, status))))
    # No refusal is needed: the time that the plugin gave has passed.
    monkeypatch.setattr(access, "reload", None)
    (tmp_path / "token").write_text(token)
    assert who(access) == ME


def test_a_plugins_certificate_until_it_expires(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "MIN_RELOAD_PERIOD_S", 0.0)
    certificate, key = control_plane.authority.client("short-lived", "people", timedelta(seconds=4))
    later = control_plane.authority.client("long-lived", "people")
    current = tmp_path / "current"
    current.write_text(json.dumps([str(certificate), str(key)]))
    status = (
        f"dict(zip(['clientCertificateData', 'clientKeyData'], "
        f"[pathlib.Path(p).read_text() for p in json.loads(pathlib.Path('{current}').read_text())]))"
    )
    access = load(str(kubeconfig(tmp_path, control_plane, plugin(tmp_path, status))))

    async def story() -> list[str]:
        async with Client(access) as client:
            first = await asked(client)
            current.write_text(json.dumps([str(part) for part in later]))
            await asyncio.sleep(5)
            return [first, await asked(client)]

    assert asyncio.run(story()) == ["short-lived", "long-lived"]


def test_an_identity_token_of_oidc(control_plane: ControlPlane, tmp_path: Path, token: str) -> None:
    issuer = {"id-token": token, "idp-issuer-url": "https://kubernetes.default.svc", "client-id": "muster"}
    user = {"auth-provider": {"name": "oidc", "config": issuer}}
    assert who(load(str(kubeconfig(tmp_path, control_plane, user)))) == ME


def test_a_server_is_known_by_its_name_or_not_looked_at(
    control_plane: ControlPlane, tmp_path: Path, token: str
) -> None:
    user = {"token": token}
    named = kubeconfig(tmp_path, control_plane, user, **{"tls-server-name": "kubernetes.default.svc"})
    assert who(load(str(named))) == ME
    other = kubeconfig(tmp_path, control_plane, user, **{"tls-server-name": "another.example"})
    with pytest.raises(errors.Unreachable, match=r"another\.example"):
        who(load(str(other)))
    unlooked = {"insecure-skip-tls-verify": True, "certificate-authority": None, "tls-server-name": "another.example"}
    assert who(load(str(kubeconfig(tmp_path, control_plane, user, **unlooked)))) == ME
    stranger = kubeconfig(tmp_path, control_plane, user, **{"certificate-authority": None})
    with pytest.raises(errors.Unreachable, match="certificate"):
        who(load(str(stranger)))


def test_several_contexts_and_several_files(
    control_plane: ControlPlane, tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pki = control_plane.folder / "pki"
    by_token = kubeconfig(tmp_path, control_plane, {"token": token}, "by-token")
    admin = {"client-certificate": str(pki / "admin.crt"), "client-key": str(pki / "admin.key")}
    by_certificate = kubeconfig(tmp_path, control_plane, admin, "by-certificate")
    both = f"{by_token}:{tmp_path / 'not-there'}:{by_certificate}"
    # kubectl's rule: the first file that names a context decides.
    assert who(load(both)) == ME
    assert who(load(both, "by-certificate")) == ADMIN
    assert who(load(f"{by_certificate}:{by_token}")) == ADMIN
    with pytest.raises(NoAccess, match="nowhere"):
        load(both, "nowhere")


def test_the_account_of_the_pod_it_runs_in_and_its_rotated_token(
    control_plane: ControlPlane, tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes import config as official

    monkeypatch.setattr(config, "MIN_RELOAD_PERIOD_S", 0.0)
    monkeypatch.setattr(official, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "not-there"))
    address, _, port = control_plane.url.removeprefix("https://").rpartition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", address)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(control_plane.ca))
    with pytest.raises(NoAccess, match="token file does not exist"):
        load()
    (tmp_path / "token").write_text(token)
    access = load()
    assert who(access) == ME
    # The kubelet puts another token there long before the old one ends; one that was revoked is found by the refusal.
    (tmp_path / "token").write_text("not.a.token")
    access = load()
    (tmp_path / "token").write_text(token)
    assert who(access) == ME


class Proxy:
    """An HTTP proxy that opens tunnels, and counts them."""

    def __init__(self) -> None:
        self.tunnels = 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                inner, _ = self._door.accept()
            except OSError:
                return
            head = inner.recv(65536).decode()
            method, target, _ = head.split(" ", 2)
            assert method == "CONNECT"
            self.tunnels += 1
            host, _, port = target.rpartition(":")
            outer = socket.create_connection((host, int(port)))
            inner.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for one, other in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while part := one.recv(65536):
                other.sendall(part)
        except OSError:
            pass
        finally:
            other.close()

    def close(self) -> None:
        self._door.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.close()


def test_a_proxy_of_the_cluster(control_plane: ControlPlane, tmp_path: Path, token: str, proxy: Proxy) -> None:
    user = {"token": token}
    assert who(load(str(kubeconfig(tmp_path, control_plane, user, **{"proxy-url": proxy.url})))) == ME
    assert proxy.tunnels == 1


def test_a_caller_without_permission_gets_the_reason(control_plane: ControlPlane, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(errors.Unauthorized):
        who(load(str(kubeconfig(tmp_path, control_plane, {"token": "not.a.token"}))))
    assert time.monotonic() - began < 5
