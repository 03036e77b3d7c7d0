"""The container of a Deployment as a process, for there are no containers here.

It gets what the kubelet would give it: the very arguments, the environment, the account's token where a pod finds it,
its volumes, a root that it cannot write to, and no capabilities. Only its ports are others, so that several can run.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from live.api import Api, Plain, place, until
from live.controlplane import ControlPlane
from live.part_process import Part, free_port

_ACCOUNT = "secrets/kubernetes.io/serviceaccount"
_PROJECT = Path(__file__).resolve().parents[2]
# The part's flag for the port that has this name.
_FLAGS = {
    ("extender", "https"): "--port", ("webhook", "https"): "--webhook-port", ("edge-gate", "https"): "--proxy-port",
}  # fmt: skip
# Mounts are made in the process's own view of the file system. /run and /etc are laid over, so that nothing is made
# on this machine; /tmp comes last, for everything else may be below it.
_MOUNTS = """
set -e
folder=$1; shift
mount -t tmpfs tmpfs /run
mkdir -p /run/etc/upper /run/etc/work /run/project "/run/$ACCOUNT"
mount --bind "$PROJECT" /run/project
mount --bind "$folder/account" "/run/$ACCOUNT"
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc
while read -r volume path; do
  mkdir -p "$path"
  mount --bind "$folder/volumes/$volume" "$path"
  # The program itself may lie below it.
  case "$PROJECT/" in "$path"/*) mkdir -p "$PROJECT" && mount --bind /run/project "$PROJECT" ;; esac
done < "$folder/mounts"
mount -o remount,bind,ro /
mount -o remount,bind,ro /etc
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


class Container(Part):
    """`with Container(plane, deployment) as part`: ready when the block begins, as the Deployment's pod is."""

    def __init__(self, plane: ControlPlane, deployment: Plain, *more: str, ports: dict[str, int] | None = None) -> None:
        """`ports`: by name, where they must be certain ones. `more`: arguments after the Deployment's own."""
        pod = _pod_of(plane.api, deployment)
        (container,) = pod["spec"]["containers"]
        verb = container["name"]
        self.ports = {port["name"]: free_port() for port in container["ports"]} | (ports or {})
        super().__init__(verb, "")
        folder = Path(self._folder.name)
        _write_account(folder / "account", plane, pod)
        _write_volumes(folder, plane.api, pod)
        named = {one["name"]: _field(pod, one) for one in container.get("env", ())}
        reported = [str(self.ports["http"]) if one == "8080" else _expanded(one, named) for one in container["args"]]
        for name, port in self.ports.items():
            if (verb, name) in _FLAGS:
                reported += [_FLAGS[verb, name], str(port)]
        at = urlsplit(plane.url)
        self._environment = {
            "PATH": os.environ["PATH"], "ACCOUNT": _ACCOUNT, "PROJECT": str(_PROJECT), "HOME": "/nonexistent",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # the tree under test, where that is not the installed one
            "KUBERNETES_SERVICE_HOST": str(at.hostname), "KUBERNETES_SERVICE_PORT": str(at.port),
            **named,
            # A checkout other than the one that is installed.
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }  # fmt: skip
        apart = ["unshare", "--mount", *(() if os.getuid() == 0 else ("--map-root-user",)), "sh", "-c", _MOUNTS, "sh"]
        self._command = [
            *apart,
            str(folder),
            sys.executable,
            "-c",
            "from muster.cli import main; main()",
            *reported,
            *more,
        ]


def _pod_of(api: Api, deployment: Plain) -> Plain:
    """The pod that the Deployment has made: KWOK says that it runs."""
    wanted = deployment["spec"]["selector"]["matchLabels"]
    selector = "%2C".join(f"{name}%3D{value}".replace("/", "%2F") for name, value in wanted.items())
    path = f"/api/v1/namespaces/{deployment['metadata']['namespace']}/pods?labelSelector={selector}"
    return until(f"a pod of {place(deployment)}", lambda: api.list(path), 40)[0]


def _write_account(folder: Path, plane: ControlPlane, pod: Plain) -> None:
    namespace = pod["metadata"]["namespace"]
    folder.mkdir()
    (folder / "token").write_text(plane.api.token_of(namespace, pod["spec"]["serviceAccountName"]), encoding="utf-8")
    (folder / "namespace").write_text(namespace, encoding="utf-8")
    shutil.copy(plane.ca, folder / "ca.crt")


def _write_volumes(folder: Path, api: Api, pod: Plain) -> None:
    """Every volume as a folder, and a list of which goes where."""
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    mounts = [
        (one["name"], one["mountPath"])
        for one in pod["spec"]["containers"][0]["volumeMounts"]
        if "projected" not in volumes[one["name"]]  # the account's, which has its place already
    ]
    for name, _ in mounts:
        made = folder / "volumes" / name
        made.mkdir(parents=True)
        if "secret" in volumes[name]:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{volumes[name]['secret']['secretName']}"
            for key, value in api.get(path)["data"].items():
                (made / key).write_bytes(base64.b64decode(value))
        else:
            assert "emptyDir" in volumes[name], volumes[name]
    mounts.sort(key=lambda mount: mount[1] == "/tmp")
    lines = "".join(f"{name} {path}\n" for name, path in mounts)
    (folder / "mounts").write_text(lines, encoding="utf-8")


def _expanded(argument: str, variables: Mapping[str, str]) -> str:
    """$(NAME) is the variable, as the kubelet has it."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], argument)


def _field(pod: Plain, variable: Plain) -> str:
    """The value of an environment variable, written down or a field of the pod."""
    if "value" in variable:
        return str(variable["value"])
    found: object = pod
    for step in variable["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        assert isinstance(found, dict)
        found = found[step]
    return str(found)
