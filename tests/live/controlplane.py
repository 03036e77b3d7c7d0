"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK.

No containers run: KWOK writes what a kubelet would (controlplane/stages.yaml). Parts can be killed, paused and started
again on the same ports and data, which is what the tests of faults need.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.request import urlopen

from live.api import Api, until
from live.binary import MODULE, binary
from live.certificates import Authority
from live.hostile.corpus import ROOT

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
_READY = {
    "etcd": ("http", "/health"),
    "kube-apiserver": ("https", "/readyz"),
    "kube-controller-manager": ("https", "/healthz"),
    "kube-scheduler": ("https", "/readyz"),
    "kwok": ("http", "/healthz"),
}
DEPLOY = Path(__file__).parents[2] / "deploy"
BESIDE, OVER_TLS = DEPLOY / "static-pod/kube-scheduler-config.yaml", DEPLOY / "kube-scheduler.yaml"
_FILES = "/etc/kubernetes/muster"
# What the samples name, and what it is here.
_NAMED = {
    "muster-extender.muster-system.svc": "localhost", f"{_FILES}/extender-ca.crt": "pki/ca.crt",
    f"{_FILES}/kube-scheduler.crt": "pki/kube-scheduler.crt", f"{_FILES}/kube-scheduler.key": "pki/kube-scheduler.key",
}  # fmt: skip
FORGED = "forged.log"
_OF_KUBE_SCHEDULER = "kube-scheduler.kubeconfig"
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None)


class ControlPlane:
    """One control plane in a folder of its own. Use it with `with`, or start() and stop()."""

    def __init__(
        self,
        *,
        parts: Sequence[str] = PARTS,
        extender: str = "",
        flags: Mapping[str, Sequence[str]] | None = None,
        pods_at_once: int = 64,
    ) -> None:
        """`extender`: base URL of an HTTP extender for kube-scheduler. `flags`: more of them, by part.

        `pods_at_once`: how many pods KWOK works on at a time; its own default is 4.
        """
        self.parts = [part for part in PARTS if part in parts]
        self._extender = extender
        self._flags = dict(flags or {})
        self._pods_at_once = pods_at_once
        self.named = dict(_NAMED)
        """What stands in the sample of kube-scheduler's configuration, and what is put there."""
        self._folder = tempfile.TemporaryDirectory(prefix="muster-live-")
        self.folder = Path(self._folder.name)
        self.token = secrets.token_hex(16)
        self.kubeconfig = self.folder / "kubeconfig"
        self.ca = self.folder / "pki" / "ca.crt"
        self._ports = dict(zip((*PARTS, "etcd-peer"), _free_ports(len(PARTS) + 1), strict=True))
        self.url = f"https://127.0.0.1:{self._ports['kube-apiserver']}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def api(self) -> Api:
        """A client that may do anything."""
        return Api(self.url, self.ca, self.token)

    def start(self) -> None:
        """Everything up and ready, the default ServiceAccount there."""
        self._program = binary()
        self._credentials()
        for part in self.parts[:2]:
            self.run(part)
            self.wait_ready(part)
        for part in self.parts[2:]:
            self.run(part)
        for part in self.parts[2:]:
            self.wait_ready(part)
        if "kube-controller-manager" in self.parts:
            # Pods are refused until the controller has made it.
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            api = self.api
            until("the default ServiceAccount", lambda: not api.gone(account), 60)

    def stop(self) -> None:
        """Everything ended, the folder gone. KILL: on TERM the API server drains watches for up to a minute."""
        for part in list(reversed(self._running)):
            self.kill(part)
        self._folder.cleanup()

    def run(self, part: str) -> None:
        """Start one part, on the port and data it always has."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        log: IO[bytes]
        with (self.folder / f"{part}.log").open("ab") as log:
            self._running[part] = subprocess.Popen(
                [self._program, part, *getattr(self, "_" + part.replace("-", "_"))(), *self._flags.get(part, ())],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                # Nothing is left behind when the tests themselves are killed.
                preexec_fn=lambda: _libc.prctl(_DIES_WITH_PARENT, signal.SIGKILL),
            )  # fmt: skip

    def kill(self, part: str) -> None:
        """kill -9, and gone when this returns."""
        process = self._running.pop(part)
        process.kill()
        process.wait()

    def pause(self, part: str) -> None:
        """The part answers nothing until resume()."""
        self._running[part].send_signal(signal.SIGSTOP)

    def resume(self, part: str) -> None:
        self._running[part].send_signal(signal.SIGCONT)

    def pid(self, part: str) -> int:
        return self._running[part].pid

    def log(self, part: str) -> str:
        return (self.folder / f"{part}.log").read_text(encoding="utf-8", errors="replace")

    def forged(self) -> list[str]:
        """The requests that reached the API server in the name of a user that no listener may present."""
        try:
            return (self.folder / FORGED).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def wait_ready(self, part: str, seconds: float = 90.0) -> None:
        """Returns when the part says it is ready."""
        scheme, path = _READY[part]
        address = f"{scheme}://127.0.0.1:{self._ports[part]}{path}"
        end = time.monotonic() + seconds
        while not _answers(address):
            ended = self._running[part].poll() is not None
            if ended or time.monotonic() > end:
                last = "\n".join(self.log(part).splitlines()[-8:])
                raise RuntimeError(f"{part} {'ended' if ended else f'is not ready after {seconds:g} s'}:\n{last}")
            time.sleep(0.05)

    def kubectl(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """kubectl as the admin, with that text as its stdin."""
        command = [str(self._program), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, cwd=self.folder)

    def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """A kubeconfig with a token of a ServiceAccount: nothing but its own rights."""
        path = self.folder / f"kubeconfig-{namespace}-{account}"
        self.write_kubeconfig(path, f"token: {self.api.token_of(namespace, account)}")
        return path

    def _credentials(self) -> None:
        authority = self.authority = Authority(self.folder / "pki")
        authority.server("apiserver", "10.0.0.1")
        authority.signing_pair("sa")
        # An authority of its own, as kubeadm makes it. With one authority for both, the API server verifies the client
        # certificate of every call twice, which is a tenth of its CPU time.
        Authority(self.folder / "pki", "front-proxy-ca", "front-proxy-ca").client("front-proxy", "front-proxies")
        authority.client("kube-scheduler", "schedulers")
        certificate, key = authority.client("admin", "system:masters")
        (self.folder / "tokens.csv").write_text(f'{self.token},admin-token,u1,"system:masters"\n', encoding="utf-8")
        self.write_kubeconfig(self.kubeconfig, _certificate_user(certificate, key))
        # Its user, whose rights the API server grants by itself.
        pair = authority.client("system-kube-scheduler", "schedulers", name="system:kube-scheduler")
        self.write_kubeconfig(self.folder / _OF_KUBE_SCHEDULER, _certificate_user(*pair))
        # Only the user whom hostile requests claim to be is audited.
        rules = [{"level": "Metadata", "users": [ROOT]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        (self.folder / "audit.yaml").write_text(json.dumps(policy), encoding="utf-8")

    def write_kubeconfig(self, path: Path, user: str) -> None:
        path.touch(mode=0o600)
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: live\n"
            f'clusters: [{{name: live, cluster: {{server: "{self.url}", '
            f"certificate-authority-data: {_base64(self.ca)}}}}}]\n"
            f"users: [{{name: live, user: {{{user}}}}}]\n"
            "contexts: [{name: live, context: {cluster: live, user: live}}]\n",
            encoding="utf-8",
        )

    def _etcd(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._ports['etcd']}", f"http://127.0.0.1:{self._ports['etcd-peer']}"
        return [
            "--data-dir=etcd-data", "--name=live", "--logger=zap", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=live={peer}",
            "--quota-backend-bytes=8589934592", "--unsafe-no-fsync",
        ]  # fmt: skip

    def _kube_apiserver(self) -> list[str]:
        # Without the controller manager nobody makes the ServiceAccount that every pod asks for.
        alone = [] if "kube-controller-manager" in self.parts else ["--disable-admission-plugins=ServiceAccount"]
        return [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self._ports['kube-apiserver']}", "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/16", "--tls-cert-file=pki/apiserver.crt",
            "--tls-private-key-file=pki/apiserver.key", "--client-ca-file=pki/ca.crt", "--token-auth-file=tokens.csv",
            "--authorization-mode=Node,RBAC", "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=pki/sa.pub", "--service-account-signing-key-file=pki/sa.key",
            "--allow-privileged=true", "--profiling=false", "--requestheader-client-ca-file=pki/front-proxy-ca.crt",
            "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--enable-priority-and-fairness=false", "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000", "--delete-collection-workers=20",
            "--audit-policy-file=audit.yaml", f"--audit-log-path={FORGED}", *alone,
        ]  # fmt: skip

    def _kube_controller_manager(self) -> list[str]:
        return [
            "--kubeconfig=kubeconfig", "--authentication-kubeconfig=kubeconfig",
            "--authorization-kubeconfig=kubeconfig", "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['kube-controller-manager']}", "--cert-dir=kcm-certificates",
            "--service-account-private-key-file=pki/sa.key", "--root-ca-file=pki/ca.crt", "--leader-elect=false",
            "--kube-api-qps=1000", "--kube-api-burst=2000",
        ]  # fmt: skip

    def _kube_scheduler(self) -> list[str]:
        text = (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {_OF_KUBE_SCHEDULER}, qps: 1000, burst: 2000}}\n"
        )
        if self._extender:
            # The sample that users are given, but for the places it says to change.
            sample = OVER_TLS if self._extender.startswith("https:") else BESIDE
            text = sample.read_text(encoding="utf-8")
            address = {"https://10.96.0.100": self._extender, "http://127.0.0.1:8888": self._extender}
            for message, here in {**address, **self.named}.items():
                text = text.replace(message, here)
            text = text.replace("/etc/kubernetes/scheduler.conf", f"{_OF_KUBE_SCHEDULER}\n  qps: 1000\n  burst: 2000")
        text += "leaderElection: {leaderElect: false}\n"
        (self.folder / "kube-scheduler.yaml").write_text(text, encoding="utf-8")
        return [
            "--config=kube-scheduler.yaml", "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['kube-scheduler']}", f"--authentication-kubeconfig={_OF_KUBE_SCHEDULER}",
            f"--authorization-kubeconfig={_OF_KUBE_SCHEDULER}", "--cert-dir=scheduler-certificates",
        ]  # fmt: skip

    def _kwok(self) -> list[str]:
        stages, option = (MODULE / "stages.yaml").read_text(encoding="utf-8"), "podPlayStageParallelism: "
        assert f"{option}64" in stages
        stages = stages.replace(f"{option}64", f"{option}{self._pods_at_once}")
        (self.folder / "stages.yaml").write_text(stages, encoding="utf-8")
        return [
            "--config=stages.yaml", "--kubeconfig=kubeconfig", "--manage-all-nodes",
            "--node-ip=127.0.0.1", "--cidr=10.200.0.1/16", "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{self._ports['kwok']}",
        ]  # fmt: skip


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, held together until all are known."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _answers(address: str) -> bool:
    # Some parts serve with a certificate that they made themselves.
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(address, timeout=2, context=unverified) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _certificate_user(certificate: Path, key: Path) -> str:
    return f"client-certificate-data: {_base64(certificate)}, client-key-data: {_base64(key)}"


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
