"""`kubectl muster` with a real kubectl against a real API server: the plugin, its flags, and its completion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders.files import text
from builders.manifests import pod
from live.api import Api, until
from live.binary import binary
from live.conftest import MakeNodes
from live.controlplane import ControlPlane

PROGRAMS = {
    "kubectl-muster": "muster.cli.kubectl",
    "kubectl_complete-muster": "muster.cli.kubectl_completion",
}


@pytest.fixture
def environment(tmp_path: Path, control_plane: ControlPlane) -> dict[str, str]:
    """The environment of a user who has installed muster: its programs are on the PATH."""
    for name, module in PROGRAMS.items():
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from {module} import main; main()" "$@"\n')
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig)}


def kubectl(environment: dict[str, str], *arguments: str) -> str:
    """kubectl of this machine, else the one that is built with the control plane."""
    installed = shutil.which("kubectl", path=environment["PATH"])
    program = [str(binary()), "kubectl"] if installed is None else [installed]
    done = subprocess.run([*program, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_muster_explains_asks_orders_and_plans_on_the_live_cluster(
    environment: dict[str, str], api: Api, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    make_nodes(1, prefix="plugin")
    large = pod("large", namespace=namespace, cpu=4000, labels={"app": "big"}, schedulerName="muster",
                container={"image": "app:1"})  # fmt: skip
    api.create({key: value for key, value in large.items() if key != "status"})
    until("the pod", lambda: len(api.list(f"/api/v1/namespaces/{namespace}/pods")) == 1)
    job = tmp_path / "job.yaml"
    job.write_text(text({**pod("small", cpu="100m", schedulerName="muster"), "status": {}}))

    queues = json.loads(kubectl(environment, "muster", "queues", "-n", namespace, "-l", "app=big", "-o", "json"))
    assert [one["pods"] for one in queues["jobs"]] == [[f"{namespace}/large"]]
    asked = json.loads(kubectl(environment, "muster", "ask", "-n", namespace, "-f", str(job), "-o", "json"))
    assert asked["answer"]["code"] == "runs-now" and list(asked["answer"]["binds"]) == [f"{namespace}/small"]
    plan = kubectl(environment, "muster", "plan", "--context", "live", "-n", namespace, "-f", str(job))
    assert f"{namespace}/small" in plan and plan.endswith("1 pod bound\n")
    assert "Insufficient cpu" in kubectl(environment, "muster", "explain", "large", "-n", namespace)
    offered = kubectl(environment, "__complete", "muster", "explain", "-n", namespace, "l")
    assert offered.splitlines() == ["large", ":4"]
