"""docs/tasks/install.md as a new user follows it: its commands, in its order, and then what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.manifests import queue
from live.api import Api, Plain, place, until
from live.binary import binary, helm
from live.conftest import HOME, MakeNodes, OwnPlane
from live.container_process import Container
from live.controlplane import ControlPlane
from live.part_process import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tasks/install.md").read_text(encoding="utf-8")
CITIES = {"hangzhou": 3, "beijing": 2}


def steps() -> dict[str, list[str]]:
    """Heading → the commands under it."""
    found: dict[str, list[str]] = {}
    for section in PAGE.split("\n## ")[1:]:
        blocks = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        found[section.splitlines()[0]] = [line for block in blocks for line in block.splitlines()]
    return found


class Reader:
    """Somebody with a terminal in a clone of the repository."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "helm").symlink_to(helm())
        kubectl = programs / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec "{binary()}" kubectl "$@"\n', encoding="utf-8")
        kubectl.chmod(0o755)
        for name in ("src", "deploy"):
            (folder / name).symlink_to(ROOT / name)
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
        own = {"PATH": path, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder)}
        self._environment = {**os.environ, **own}

    def follow(self, heading: str) -> str:
        """What its commands print; each of them must succeed."""
        commands = steps()[heading]
        assert commands, heading
        return "".join(self.type(command) for command in commands)

    def type(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=self.folder, env=self._environment, capture_output=True,
            text=True, timeout=90,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


class TestInstallPage(OwnPlane):
    """On a control plane of its own, whose kube-scheduler asks the extender."""

    @pytest.fixture(scope="class")
    @classmethod
    def extender_port(cls) -> int:
        return free_port()

    @pytest.fixture(scope="class")
    @classmethod
    def control_plane(cls, extender_port: int) -> Iterator[ControlPlane]:
        with ControlPlane(extender=f"https://127.0.0.1:{extender_port}") as plane:
            yield plane

    def test_a_new_user_follows_it(
        self, control_plane: ControlPlane, api: Api, make_nodes: MakeNodes, extender_port: int, tmp_path: Path
    ) -> None:
        for city in CITIES:
            make_nodes(2, prefix=f"{city}-", labels={"location": city})
        reader = Reader(control_plane, tmp_path)
        reader.follow("The kinds")
        # Another scheduler's, say: it is not muster's to label, to change or to delete.
        kept = api.create(queue("default", weight=7, reclaimable=False))
        assert "muster-scheduler" in reader.follow("The parts")
        reader.follow("The extender's certificates")
        # kube-scheduler is started with them, as the page's configuration names them.
        files = ("extender-ca.crt", "kube-scheduler.crt", "kube-scheduler.key")
        control_plane.named = {f"/etc/kubernetes/muster/{file}": str(tmp_path / file) for file in files}
        control_plane.kill("kube-scheduler")
        control_plane.run("kube-scheduler")
        with ExitStack() as running:
            parts = [running.enter_context(part) for part in self.installed(control_plane, extender_port)]
            assert re.match(r"https://10\.0\.\d+\.\d+$", reader.follow("kube-scheduler"))
            reader.follow("The webhook")
            reader.follow("Try it")
            assert divided(api, "nginx") == CITIES
            # The same for kube-scheduler, by the extender.
            reported = (tmp_path / "src/muster/sim/demo/manifests/group-management/nginx.yaml").read_text(
                encoding="utf-8"
            )
            reported = reported.replace("schedulerName: muster", "").replace("app: nginx", "app: plain")
            (tmp_path / "plain.yaml").write_text(reported.replace("name: nginx", "name: plain", 1), encoding="utf-8")
            reader.type("kubectl apply -f plain.yaml")
            assert divided(api, "plain") == CITIES
            reader.follow("The edge gate")
            gate = running.enter_context(Container(control_plane, deployed(api, "edge-gate")))
            at = f"--server https://localhost:{gate.ports['https']} --certificate-authority gate.crt"
            user = f"--kubeconfig /dev/null --token {control_plane.token}"
            assert reader.type(f"kubectl {user} {at} get pods").count("Running") == 10
            for part in (*parts, gate):
                assert [entry for entry in part.log() if "forbidden" in str(entry).lower()] == []
            reader.follow("Uninstall")
        self.untouched(api, kept)
        reader.follow("Uninstall")  # again: nothing is found, and nothing fails
        left = "deployments,services,roles,rolebindings,clusterroles,clusterrolebindings,serviceaccounts"
        ours = f"kubectl get {left} -A -l app.kubernetes.io/part-of=muster -o name"
        assert reader.type(ours) == ""
        (by_helm,) = re.findall(r"^helm install .*$", PAGE, re.MULTILINE)
        reader.type(by_helm)
        assert reader.type(ours).count("deployment.apps/") == 4
        reader.type("helm uninstall muster -n muster-system")
        self.untouched(api, kept)
        api.delete(place(kept))
        reader.type(by_helm)
        assert api.get(place(kept))["metadata"]["labels"]["app.kubernetes.io/part-of"] == "muster"
        reader.type("helm upgrade muster deploy/helm/muster -n muster-system")
        assert not api.gone(place(kept))
        reader.type("helm uninstall muster -n muster-system")
        assert api.gone(place(kept))

    def untouched(self, api: Api, queue: Plain) -> None:
        now = api.get(place(queue))
        assert now["metadata"]["uid"] == queue["metadata"]["uid"] and now["spec"] == queue["spec"]
        assert not now["metadata"].get("labels")

    def installed(self, plane: ControlPlane, extender_port: int) -> Iterator[Container]:
        """What runs after the first steps. The extender comes first: without it kube-scheduler places nothing."""
        yield Container(plane, deployed(plane.api, "extender"), ports={"https": extender_port})
        for verb in ("scheduler", "controllers"):
            yield Container(plane, deployed(plane.api, verb))
        # There is no network of Services here: the API server is led to this machine in place of the pod.
        port = free_port()
        path = f"/api/v1/namespaces/{HOME}/services/muster-webhook"
        plane.api.delete(path)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "muster-webhook", "namespace": HOME}}
        plane.api.create({**service, "spec": {"type": "ExternalName", "externalName": "localhost"}})
        yield Container(plane, deployed(plane.api, "webhook"), "--service-port", str(port), ports={"https": port})


def deployed(api: Api, verb: str) -> Plain:
    return api.get(f"/apis/apps/v1/namespaces/{HOME}/deployments/muster-{verb}")


def divided(api: Api, app: str) -> dict[str, int]:
    """City → how many pods run there, each with the image of its city."""

    def settled() -> list[Plain] | None:
        found = api.list(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")
        return found if len(found) == 5 and all(pod["status"]["phase"] == "Running" for pod in found) else None

    pods = until(f"the pods of {app} to run", settled, 60)
    for pod in pods:
        city = pod["spec"]["nodeName"].rpartition("-")[0]
        assert pod["metadata"]["labels"]["groupmanagement.kubeedge.io/nodegroup"] == city
        assert pod["spec"]["containers"][0]["image"].startswith(f"{city}.registry.io/")
    return dict(Counter(pod["spec"]["nodeName"].rpartition("-")[0] for pod in pods))
