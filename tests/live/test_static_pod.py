"""deploy/static-pod: kube-scheduler and the extender in one pod, on two control plane nodes, as the manifest says."""

from __future__ import annotations

import base64
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from live.api import Api, Plain, place, until
from live.binary import binary
from live.conftest import HOME, MakeNodes, OwnPlane
from live.controlplane import PARTS, ControlPlane
from live.group_site import install
from live.node_groups import BINDING, REQUIRED, Watcher, divided, pods, thing, weights, workload
from live.part_process import free_port
from muster.model.yamltext import load_all

FOLDER = Path(__file__).parents[2] / "deploy" / "static-pod"
BOUND = {**REQUIRED, BINDING: "pp"}
USER = f"system:serviceaccount:{HOME}:muster-extender"
PROGRAMS = {"kube-scheduler": [], "extender": [sys.executable, "-c", "from muster.cli import main; main()"]}


class StaticPod:
    """The pod of one control plane node: its containers as processes, with the files of the host in a folder.

    Of what the manifest says only the host's folder and the two ports are others: both nodes are this machine.
    """

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._replaced = {"/etc/kubernetes": str(folder), "8888": str(free_port()), "10259": str(free_port())}
        ours = folder / "muster"
        ours.mkdir(parents=True)
        shutil.copy(plane.kubeconfig, folder / "scheduler.conf")
        (ours / "kube-scheduler-config.yaml").write_text(self._here("kube-scheduler-config.yaml"), encoding="utf-8")
        # What `kubeadm kubeconfig user` writes.
        pair = plane.authority.client("extender-user", "nobody", name=USER)
        user = ", ".join(
            f"client-{what}-data: {base64.b64encode(file.read_bytes()).decode()}"
            for what, file in zip(("certificate", "key"), pair, strict=True)
        )
        plane.write_kubeconfig(ours / "extender.conf", user)

    def _here(self, name: str) -> str:
        text = (FOLDER / name).read_text(encoding="utf-8")
        for message, here in self._replaced.items():
            text = text.replace(message, here)
        return text

    def __enter__(self) -> StaticPod:
        (pod,) = [document.value for document in load_all(self._here("kube-scheduler.yaml"), "static pod")]
        for container in pod["spec"]["containers"]:
            name = container["name"]
            given = [*container.get("command", ()), *container.get("args", ())]
            if name == "kube-scheduler":
                given += ["--secure-port", self._replaced["10259"], f"--cert-dir={self.folder}/certificates"]
                given = [str(binary()), *given]
            with (self.folder / f"{name}.log").open("ab") as log:
                command = [*PROGRAMS[name], *given]
                self._running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        probe = pod["spec"]["containers"][1]["readinessProbe"]["httpGet"]
        url = f"http://{probe['host']}:{probe['port']}{probe['path']}"
        until("the extender to be ready", lambda: _answers(url), 40)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """The node is lost."""
        for one in self._running.values():
            one.send_signal(signal.SIGKILL)
            one.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    @property
    def leads(self) -> bool:
        return "successfully acquired lease" in self.log("kube-scheduler").lower()


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


class TestStaticPod(OwnPlane):
    @pytest.fixture(scope="class")
    @classmethod
    def control_plane(cls) -> Iterator[ControlPlane]:
        with ControlPlane(parts=[part for part in PARTS if part != "kube-scheduler"]) as plane:
            install(plane.api)
            yield plane

    def test_pods_are_divided_and_the_other_node_takes_over(
        self, control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, tmp_path: Path
    ) -> None:
        made: list[Plain] = []
        for city in ("hangzhou", "beijing"):
            make_nodes(2, prefix=f"{city}-", labels={"location": city}, resources={"pods": "500", "cpu": "64"})
            made.append(api.create(thing("NodeGroup", city, spec={"matchLabels": {"location": city}})))
        api.create(weights(namespace, Beijing=1, Hangzhou=1))
        with ExitStack() as running:
            both = [running.enter_context(StaticPod(control_plane, tmp_path / name)) for name in ("one", "two")]
            first = until("one to lead", lambda: next((pod for pod in both if pod.leads), None), 40)
            (other,) = [pod for pod in both if pod is not first]
            with Watcher(control_plane, namespace) as seen:
                api.create(workload("Deployment", namespace, 10, BOUND))
                divided(api, namespace, beijing=5, hangzhou=5)
                api.merge(f"/apis/apps/v1/namespaces/{namespace}/deployments/nginx", {"spec": {"replicas": 60}})
                until("some more", lambda: sum("nodeName" in p["spec"] for p in pods(api, namespace)) > 15)
                first.kill()
                until("the other one to lead", lambda: other.leads, 60)
                divided(api, namespace, 90, beijing=30, hangzhou=30)
            assert seen.most == {"beijing": 30, "hangzhou": 30}
            assert "forbidden" not in other.log("extender").lower()
        for group in made:
            api.delete(place(group))
