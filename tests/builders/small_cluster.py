"""Small clusters for tests, said briefly: nodes, queues, groups and pods as plain values, and a session over them."""

from __future__ import annotations

from typing import Any

from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model import kinds
from muster.model.meta import Object

LABEL = "volcano.sh/nodegroup-name"


def node(name: str, group: str = "", labels: dict[str, str] | None = None, **amounts: object) -> Object:
    """A node; resources as keywords, `nvidia_com__gpu=8` for nvidia.com/gpu."""
    offered = {"cpu": "8", "memory": "16Gi", "pods": "110", **_resources(amounts)}
    tags = {**(labels or {}), **({LABEL: group} if group else {})}
    status = {"allocatable": offered, "capacity": offered}
    return _object("v1", "Node", {"name": name, "labels": tags}, status=status)


def queue(
    name: str,
    required: list[str] = [],  # noqa: B006 - only read
    preferred: list[str] = [],  # noqa: B006
    forbidden: list[str] = [],  # noqa: B006
    avoided: list[str] = [],  # noqa: B006
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    if required or preferred or forbidden or avoided:
        spec["affinity"] = {
            "nodeGroupAffinity": {hard: required, soft: preferred},
            "nodeGroupAntiAffinity": {hard: forbidden, soft: avoided},
        }
    meta = {"name": name, "annotations": annotations or {}}
    return _object("scheduling.volcano.sh/v1beta1", "Queue", meta, spec=spec)


def node_group(name: str, nodes: list[str] | None = None, labels: dict[str, str] | None = None) -> Object:
    spec = {"nodes": nodes or [], "matchLabels": labels or {}}
    return _object("groupmanagement.kubeedge.io/v1alpha1", "NodeGroup", {"name": name}, spec=spec)


def pod_group(name: str, queue: str = "default", members: int = 1, annotations: dict[str, str] | None = None) -> Object:
    meta = {"name": name, "namespace": "d", "annotations": annotations or {}}
    spec = {"queue": queue, "minMember": members}
    return _object("scheduling.volcano.sh/v1beta1", "PodGroup", meta, spec=spec, status={"phase": "Inqueue"})


def pod(name: str, group: str, on: str = "", annotations: dict[str, str] | None = None, **amounts: object) -> Object:
    notes = {"scheduling.k8s.io/group-name": group, **(annotations or {})}
    meta = {"name": name, "namespace": "d", "annotations": notes}
    asked = {"cpu": "1", **_resources(amounts)}
    asked = {k: v for k, v in asked.items() if v is not None}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked}}], "nodeName": on}
    return _object("v1", "Pod", meta, spec=spec, status={"phase": "Running" if on else "Pending"})


def state_of(*objects: Object) -> State:
    held: dict[str, dict[str, Object]] = {}
    for item in objects:
        meta = item.metadata
        key = f"{meta.namespace or 'default'}/{meta.name}" if type(item).namespaced else meta.name
        held.setdefault(type(item).__name__, {})[key if type(item).__name__ != "Node" else meta.name] = item
    state = State()
    state.load(held)
    return state


def option(plugin: str, arguments: dict[str, Any] | None = None, **switches: bool) -> PluginOption:
    given = Arguments(arguments or {}, owner=f"plugin {plugin}", file="scheduler.yaml")
    return PluginOption(plugin, switches, given)


def session_of(state: State, *plugins: PluginOption) -> Session:
    made = [plugin_class(p.name)(p.arguments, p) for p in plugins]
    return Session(state, Config(("allocate",), (Tier(plugins),)), [made], 0.0)


def task(state: State, name: str) -> Task:
    return state.tasks[f"d/{name}"]


def _resources(amounts: dict[str, object]) -> dict[str, object]:
    return {name.replace("__", "/").replace("_", "."): value for name, value in amounts.items()}


def _object(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> Object:
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": meta, **parts})
