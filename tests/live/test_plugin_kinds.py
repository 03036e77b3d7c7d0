"""A plugin of another package that reads a custom resource: the scheduler watches it and wakes up on its changes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.manifests import definition, pod
from builders.plugin_package import BLOCKS, PluginPackage
from live.accounts import let_read
from live.api import Api, place, until
from live.conftest import HOME, MakeNodes, served
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, condition, stays_unplaced

GROUP, PLURAL = "example.com", "maintenancewindows"
PATH = f"/apis/{GROUP}/v1/{PLURAL}"

pytestmark = pytest.mark.usefixtures("crds", "namespaces_deleted")


@pytest.fixture
def windows(api: Api, rights: None) -> Iterator[None]:
    """The custom resource of the page, and the scheduler's permission to read it."""
    created = api.create(definition(GROUP, "MaintenanceWindow", scope="Cluster"))
    let_read(api, HOME, "scheduler", GROUP, PLURAL)
    until("the kind to be served", lambda: served(api, PATH))
    yield
    api.delete(place(created))


def set_window(api: Api, node: str, *, closed: bool) -> None:
    window = {"apiVersion": f"{GROUP}/v1", "kind": "MaintenanceWindow", "metadata": {"name": "tonight"}}
    content = {**window, "spec": {"nodeNames": [node], "closed": closed}}
    api.call("PATCH", f"{PATH}/tonight?fieldManager=test&force=true", content, "application/apply-patch+yaml")


def no_cycle_for(seconds: float, muster: Scheduler) -> None:
    """Waits until the scheduler has run no cycle for so long."""
    last = time.monotonic()
    count = 0
    while time.monotonic() < last + seconds:
        cycles = sum(entry["msg"] == "cycle" for entry in muster.log())
        if cycles > count:
            last, count = time.monotonic(), cycles
        time.sleep(0.1)


@pytest.mark.usefixtures("windows")
def test_the_scheduler_obeys_a_plugin_and_wakes_up_when_its_custom_resource_changes(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    package = PluginPackage(tmp_path)
    package.install()
    (node,) = (one["metadata"]["name"] for one in make_nodes(1))
    set_window(api, node, closed=True)
    config = BLOCKS["scheduler.yaml"]
    with Scheduler(scheduler_kubeconfig, config=config, environment=package.environment) as muster:
        api.create(pod("web", namespace=namespace, schedulerName="muster", container={"image": "app:1"}))
        reason = until("a reason", lambda: condition(api, namespace, "web").get("message"))
        assert "1 node(s) are about to be serviced" in reason
        stays_unplaced(api, namespace, ["web"])
        no_cycle_for(2.5, muster)
        set_window(api, node, closed=False)
        all_placed(api, namespace, ["web"], seconds=5)  # before the periodic cycle

    taken = package.muster("snapshot", "all.ndjson.gz", "--kubeconfig", str(control_plane.kubeconfig), "-o", "json")
    assert taken.returncode == 0, taken.stderr
    assert json.loads(taken.stdout)["objects"][f"MaintenanceWindow.{GROUP}"] == 1
