"""What an operator sees of the parts: findings of the configuration, unmet requirements, overfull nodes, readiness."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from builders.manifests import group
from live.api import Api, Plain, place, until
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, create_all, muster_pod, placed
from live.part_process import Part, free_port
from live.test_configuration import config_map, environment, own_pod, reported, valid
from live.test_scheduler import EVICTS
from live.webhook_site import webhook_part

pytestmark = pytest.mark.usefixtures("crds", "namespaces_deleted")
__all__ = ["own_pod"]

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
LIVE_PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "live.md"
FOREIGN = EVICTS.replace("{name: drf}", "{name: drf}, {name: tdm}")


def findings(muster: Scheduler, kind: str = "configuration finding") -> list[Plain]:
    return [entry for entry in muster.log() if entry["msg"].startswith(kind)]


def test_findings_of_the_configuration_are_logged_counted_and_shown(
    api: Api, scheduler_kubeconfig: Path, own_pod: Plain
) -> None:
    """A plugin that muster does not have, at the start; a mistaken weight after a change."""
    there = api.apply(config_map(FOREIGN))
    where = f"configmap:{HOME}/muster-scheduler"
    with Scheduler(scheduler_kubeconfig, "-c", where, environment=environment(own_pod)) as muster:
        (entry,) = findings(muster)
        assert entry["v"] == 0 and entry["code"] == "foreign-plugin" and entry["severity"] == "warning"
        assert "plugin tdm: muster does not have tdm and skips it" in entry["msg"] and entry["fix"]
        labels = 'code="foreign-plugin",severity="warning"'
        assert muster.metric("muster_configuration_findings", labels) == 1
        until("the condition", lambda: "muster does not have tdm" in valid(api, own_pod)[1])
        assert valid(api, own_pod)[0] == "True"
        twice = EVICTS.replace("enqueue, allocate", "enqueue, allocate, allocate")
        there = api.apply(config_map(twice))
        until("another finding", lambda: len(findings(muster)) == 2, 30)
        assert findings(muster)[1]["code"] == "action-twice" and findings(muster)[1]["v"] == 0
        assert muster.metric("muster_configuration_findings", labels) == 0
        assert muster.metric("muster_configuration_findings", 'code="action-twice"') == 1
        until("the condition", lambda: "allocate is listed 2 times" in valid(api, own_pod)[1])
        (used,) = until("an event", lambda: reported(api, there, "ConfigMap"))
        assert used[0] == "ConfigurationUsed" and "allocate is listed 2 times" in used[1]
    api.delete(place(there))


def test_a_requirement_that_no_plugin_provides_is_logged_and_counted(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1)
    without_gang = EVICTS.replace("{name: gang}, ", "").replace(", {name: gang}", "").replace("{name: gang}", "")
    assert "gang" not in without_gang
    with Scheduler(scheduler_kubeconfig, config=without_gang) as muster:
        api.create(group("three", "default", namespace=namespace, minMember=3))
        create_all(api, [muster_pod(namespace, f"three-{i}", "three") for i in range(3)])
        all_placed(api, namespace, [f"three-{i}" for i in range(3)])
        (entry,) = until(
            "the log", lambda: [one for one in findings(muster, "unmet requirement") if "minMember" in one["msg"]]
        )
        # One finding for all groups, which names the first of them: a failed test may have left others.
        assert f"{namespace}/three" in entry["msg"], [one["metadata"] for one in api.list(GROUPS)]
        assert entry["v"] == 0 and entry["code"] == "no-plugin"
        assert "the plugin gang is not configured" in entry["msg"]


def test_overfull_nodes_are_counted_and_logged(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    """As if another scheduler had bound pods to the same nodes in the same moment."""
    nodes = [one["metadata"]["name"] for one in make_nodes(3, resources={"cpu": "4"})]
    with Scheduler(scheduler_kubeconfig) as muster:
        assert muster.metric("muster_overfull_nodes") == 0
        create_all(api, [
            muster_pod(namespace, f"theirs-{node}-{i}", cpu="3", schedulerName="theirs", nodeName=node)
            for node in nodes[:2] for i in range(2)
        ])  # fmt: skip
        until("two overfull nodes", lambda: muster.metric("muster_overfull_nodes") == 2, 30)
        (entry,) = (one for one in muster.log() if one["msg"] == "nodes are overfull")
        assert entry["v"] == 0 and set(entry["some"]) <= set(nodes[:2])
        for node in nodes[:2]:
            api.delete(f"/api/v1/namespaces/{namespace}/pods/theirs-{node}-0", {"gracePeriodSeconds": 0})
        until("none", lambda: muster.metric("muster_overfull_nodes") == 0, 30)
        assert any(one["msg"] == "no node is overfull any more" for one in muster.log())


def sharing() -> list[Plain]:
    """The objects of the page on sharing a cluster."""
    page = LIVE_PAGE.read_text(encoding="utf-8")
    section = page.split("## Sharing a cluster with kube-scheduler")[1].split("\n## ")[0]
    blocks = re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [one for block in blocks for one in yaml.safe_load_all(block)]


def test_with_nodes_of_their_own_a_burst_beside_kube_scheduler_overfills_none(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    """The YAML of docs/tasks/live.md, on 12 nodes, with as many pods as fit."""
    node, job = sharing()
    ours = [one["metadata"]["name"] for one in make_nodes(6, prefix="batch", labels=node["metadata"]["labels"])]
    for name in ours:
        api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": node["spec"]["taints"]}})
    theirs = {one["metadata"]["name"] for one in make_nodes(6, prefix="other")}
    template = job["spec"]["template"]["spec"]
    keep = {key: template[key] for key in ("schedulerName", "nodeSelector", "tolerations")}
    with Scheduler(scheduler_kubeconfig) as muster:
        names = [f"{whose}-{i}" for whose in ("ours", "theirs") for i in range(48)]
        create_all(api, [
            muster_pod(namespace, name, **(keep if name.startswith("ours") else {"schedulerName": "default-scheduler"}))
            for name in names
        ])  # fmt: skip
        all_placed(api, namespace, names, 60)
        for name, where in placed(api, namespace).items():
            assert where in (ours if name.startswith("ours") else theirs), name
        assert muster.metric("muster_overfull_nodes") == 0
        assert not [one for one in muster.log() if one["msg"] == "nodes are overfull"]


@pytest.mark.parametrize("verb", ["controllers", "pod-groups", "extender", "webhook", "edge-gate"])
def test_readyz_names_the_kinds_that_a_part_waits_for(verb: str, control_plane: ControlPlane, namespace: str) -> None:
    """With an account that may read nothing. The scheduler is in test_scheduler."""
    nobody = control_plane.kubeconfig_of(namespace, "default")
    alone = () if verb == "edge-gate" else ("--no-leader-elect",)
    if verb == "webhook":
        part = webhook_part(nobody, namespace, free_port())
    elif verb == "extender":
        part = Part(verb, nobody)
        part._command = [one for one in part._command if one not in ("--metrics-port", "0")] + ["--port", "0", *alone]
    else:
        more = ("--proxy-port", "0") if verb == "edge-gate" else ()
        part = Part(verb, nobody, *alone, *more)
    with ExitStack() as stack:
        stack.callback(part.stop)
        part.start(wait=False)
        kind = "deployments.apps" if verb in ("edge-gate",) else "pods"
        until("the kinds", lambda: f"{kind} (" in part.probe("/readyz")[1], 30)
        status, text = part.probe("/readyz")
        assert status == 503
        assert text.startswith("the cluster has not been read yet: waits for the first list of "), text
        assert "cannot list resource" in text
