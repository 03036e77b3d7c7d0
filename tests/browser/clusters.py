"""The clusters that the browser tests open: demo, empty, 5,000 nodes, full of errors, and hostile."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from builders.files import full_cluster, text
from builders.manifests import group, manifest, node, pod, queue
from muster.config import DEFAULT

CANARY = "<script>window.canary=1</script><img src=x onerror='window.canary=1'>\"><svg onload=window.canary=1>"
HOSTILE = f"{CANARY}'\"&lt;\u202egpj.exe\u2066\u200f javascript:alert(1) ${{7*7}} {{{{7*7}}}}"
NAME = "<img src=x onerror=window.canary=1>\"'><svg onload=window.canary=1>\u202egpj.exe\u2066"  # names have no slash
LONG = "x9" * 2_500 + "9" * 5_000
# The built-in configuration with preemption and shared GPUs, for the demo cluster.
CONFIGURATION: dict[str, Any] = yaml.safe_load(DEFAULT)
CONFIGURATION["actions"] = "enqueue, allocate, preempt, backfill"
CONFIGURATION["tiers"][1]["plugins"].append({"name": "gpu-share"})
LARGE_NODES, LARGE_PODS = 5_000, 10_000
DEMO_FILES = (
    "nodegroup/departments.yaml", "nodegroup/nlp.yaml", "nodegroup/recommend.yaml", "nodesets/racks.yaml",
    "nodesets/pair.yaml", "nodesets/quartet.yaml", "topology910/boards.yaml", "topology910/two-chips.yaml",
    "group-management/nodes.yaml", "group-management/nodegroups.yaml", "group-management/nginx.yaml",
    "group-management/propagationpolicy.yaml", "group-management/overridepolicy.yaml",
)  # fmt: skip

Documents = list[dict[str, Any]]


def demo() -> Documents:
    """Objects of the demo's chapters, a shared GPU and a preemption: every view has something to show."""
    folder = files("muster.sim.demo") / "manifests"
    found = [one for name in DEMO_FILES for one in yaml.safe_load_all((folder / name).read_text("utf-8")) if one]
    for one in full_cluster():
        if one["kind"] == "Node":
            one["metadata"]["labels"] = {"full": "yes"}
        if one["metadata"]["name"] == "boss":
            one["spec"]["nodeSelector"] = {"full": "yes"}
        found.append(one)
    found.append(node("shared", cpu=16, resources={"nvidia.com/gpu": 2}))
    found += [pod(f"half-{i}", annotations={"gpu-fraction": "0.5"}) for i in range(3)]
    found.append(queue("company", capability={"cpu": "400"}))
    found.append(queue("lab", parent="company", guarantee={"resource": {"cpu": "4"}}))
    return [*found, queue("spare", parent="nowhere")]


def empty() -> Documents:
    """A cluster with a namespace and nothing else."""
    return [manifest("v1", "Namespace", "default")]


def large(nodes: int = LARGE_NODES, pods: int = LARGE_PODS) -> Documents:
    """Racks of 16 nodes, gangs that run on them, and a gang and a pod that wait."""
    levels = {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}
    found = [manifest("kueue.x-k8s.io/v1alpha1", "Topology", "site", spec=levels)]
    found += [queue(f"team-{i}", weight=i + 1) for i in range(8)]
    for i in range(nodes):
        labels = {"zone": f"z{i * 4 // nodes}", "rack": f"r{i // 16:03}"}
        extra = {"unschedulable": True} if i % 97 == 0 else {}
        found.append(node(f"node-{i:05}", cpu=64, resources={"nvidia.com/gpu": 8}, labels=labels, **extra))
    for i in range(pods):
        name = f"job-{i // 16:04}"
        if i % 16 == 0:
            found.append(group(name, f"team-{i // 16 % 8}", minMember=16, phase="Running"))
        requests = {"cpu": 1 + i % 7, "memory": "1Gi", "nvidia.com/gpu": i % 3}
        found.append(pod(f"{name}-{i % 16}", name, f"node-{i % nodes:05}", requests=requests, schedulerName="muster"))
    found.append(group("waits", "team-0", minMember=3))
    found += [pod(f"waits-{i}", "waits", cpu=100, schedulerName="muster") for i in range(3)]
    return [*found, pod("new", schedulerName="muster")]


def errors() -> Documents:
    """Everything that can be wrong: documents that cannot be used, nodes that take no pods, pods that never fit."""
    return [
        node("not-ready", ready=False), node("cordoned", unschedulable=True), node("small", cpu=1),
        node("tainted", taints=[{"key": "only", "value": "me", "effect": "NoSchedule"}]),
        node("bad", cpu="many"), node("small", cpu=2),
        queue("closed", state="Closed"), queue("orphan", parent="nowhere"), queue("loop", parent="loop"),
        group("no-queue", "missing", minMember=2), group("shut", "closed", minMember=2), group("huge", minMember=50),
        *[pod(f"no-queue-{i}", "no-queue") for i in range(2)], *[pod(f"shut-{i}", "shut") for i in range(2)],
        *[pod(f"huge-{i}", "huge", cpu=99) for i in range(50)], *[pod(f"wide-{i}", cpu=i + 2) for i in range(30)],
        pod("gated", schedulingGates=[{"name": "a"}]), pod("elsewhere", on="gone"), pod("bad", cpu="-1"),
        pod("picky", nodeSelector={"zone": "none"}), pod("lost", "unknown-group"),
        manifest("groupmanagement.kubeedge.io/v1alpha1", "NodeGroup", "nobody", spec={"nodes": ["gone"]}),
        manifest("groupmanagement.kubeedge.io/v1alpha1", "PropagationPolicy", "bad", spec={"propagationStrategy": "x"}),
        {"apiVersion": "v1", "kind": "Pod"}, {"kind": 5},
    ]  # fmt: skip


def hostile() -> Documents:
    """Scripts, quotes, marks that change the direction of text, and 10 kB of text wherever a text may stand."""
    labels = {"zone": HOSTILE, "volcano.sh/nodegroup-name": HOSTILE, HOSTILE: HOSTILE, "long": LONG}
    notes = {"note": HOSTILE, "long": LONG, HOSTILE: HOSTILE}
    levels = {"levels": [{"nodeLabel": "zone"}]}
    members = [{"type": "Node", "selector": {"exactMatch": {"name": NAME}}}]
    policy = "groupmanagement.kubeedge.io/v1alpha1"
    return [
        manifest("kueue.x-k8s.io/v1alpha1", "Topology", NAME, spec=levels),
        manifest("topology.volcano.sh/v1alpha1", "HyperNode", NAME, spec={"tier": 1, "members": members}),
        node(NAME, labels=labels, annotations=notes, resources={NAME: 4}), node(LONG, labels=labels),
        node("full", cpu=1, annotations={"kubevirt.io/x": HOSTILE}),
        queue(NAME, capability={NAME: "1"}), queue(LONG, parent=NAME),
        group(NAME, NAME, minMember=2), group(LONG, NAME, minMember=2),
        *[pod(f"{NAME}{i}", NAME, labels=labels, annotations=notes) for i in range(2)],
        *[pod(f"{LONG}{i}", LONG, requests={NAME: 2}) for i in range(3)],
        pod("gated", schedulingGates=[{"name": HOSTILE}]), pod("picky", nodeSelector={HOSTILE: LONG}),
        pod("wants", requests={NAME: 1}), pod("missing", LONG[:300] + NAME), pod("runs", on="full", labels=labels),
        manifest(policy, "NodeGroup", NAME, spec={"nodes": [NAME]}),
        manifest(policy, "PropagationPolicy", NAME,
                 spec={"staticWeightList": [{"nodeGroupNames": [NAME, LONG], "weight": 1}]}),
    ]  # fmt: skip


CLUSTERS = {"demo": demo, "empty": empty, "large": large, "errors": errors, "hostile": hostile}


def write(folder: Path, name: str) -> Path:
    """Writes a cluster as a file for `-f`."""
    path = folder / f"{name}.yaml"
    path.write_text(text(*CLUSTERS[name]()), "utf-8")
    return path


def as_json(documents: Documents) -> str:
    """Returns a cluster as a List in JSON, which is read much faster than YAML."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
