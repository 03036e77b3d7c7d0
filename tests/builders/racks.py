"""Clusters with racks: nodes with topology labels, topologies, and gangs with topology constraints."""

from __future__ import annotations

from typing import Any

from builders import manifests
from builders.manifests import state_of, typed
from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.engine.core.session import Log, silent
from muster.model import kinds
from muster.model.meta import Object

ZONE, BLOCK, RACK = "zone", "block", "rack"
CONFIG = """
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: topology
"""


def made(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> Object:
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": meta, **parts})


def gpu_node(name: str, gpus: int = 8, cpu: int = 64, pods: int = 110, **labels: str) -> Object:
    tags = {"kubernetes.io/hostname": name, **labels}
    return typed(
        manifests.node(name, cpu=cpu, memory="256Gi", pods=pods, resources={"nvidia.com/gpu": gpus}, labels=tags)
    )


def topology(*levels: str, name: str = "tree", api: str = "kueue.x-k8s.io/v1alpha1") -> Object:
    return made(api, "Topology", {"name": name}, spec={"levels": [{"nodeLabel": level} for level in levels]})


def hypernode(name: str, tier: int, *members: str, kind: str = "Node", tier_name: str = "") -> Object:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "tierName": tier_name, "members": chosen}
    return made("topology.volcano.sh/v1alpha1", "HyperNode", {"name": name}, spec=spec)


def gang(
    name: str, least: int, required: str = "", preferred: str = "", tree: str = "tree", phase: str = "Inqueue",
    **spec: Any,
) -> Object:  # fmt: skip
    notes = {"kai.scheduler/topology": tree} if required or preferred else {}
    if required:
        notes["kai.scheduler/topology-required-placement"] = required
    if preferred:
        notes["kai.scheduler/topology-preferred-placement"] = preferred
    spec = {"minMember": least, "queue": "default", **spec}
    return typed(manifests.group(name, namespace="d", phase=phase, annotations=notes, **spec))


def member(
    group: str, index: int | str, gpus: int = 1, on: str = "", part: str = "", labels: dict[str, str] | None = None,
    priority: int | None = None,
) -> Object:  # fmt: skip
    tags = {**(labels or {}), **({"kai.scheduler/subgroup-name": part} if part else {})}
    asked = {"cpu": "1", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    spec = {} if priority is None else {"priority": priority}
    name = f"{group}-{index}"
    return typed(manifests.pod(name, namespace="d", group=group, on=on, requests=asked, labels=tags, **spec))


def members(group: str, count: int, gpus: int = 1, **more: Any) -> list[Object]:
    return [member(group, i, gpus, **more) for i in range(count)]


def priority_class(name: str, value: int) -> Object:
    return made("scheduling.k8s.io/v1", "PriorityClass", {"name": name}, value=value)


def scheduler(actions: str = "enqueue, allocate", config: str = CONFIG) -> Scheduler:
    loaded, findings = load(config.format(actions=actions), "scheduler.yaml", known())
    assert not findings, findings
    return Scheduler(loaded)


def cycle(*objects: Any, actions: str = "enqueue, allocate", config: str = CONFIG, log: Log = silent) -> Plan:
    return scheduler(actions, config).cycle(state_of(*objects), 0.0, log)


def where(plan: Plan, group: str) -> dict[str, str]:
    """Pod → node of what was bound (or promised) of a group, by the pods' names."""
    both = {**plan.pipelined, **plan.binds}
    return {pod.partition("/")[2]: at for pod, at in sorted(both.items()) if pod.startswith(f"d/{group}-")}
