"""Clusters with node groups and queue affinity in the namespace d, and a session over them."""

from __future__ import annotations

from typing import Any

from builders import manifests
from builders.manifests import manifest, typed
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.meta import Object

LABEL = "volcano.sh/nodegroup-name"


def grouped_node(name: str, group: str, **more: Any) -> Object:
    """A node with the label of a node group, if `group` is not empty; other keywords are those of `manifests.node`."""
    return typed(manifests.node(name, labels={LABEL: group} if group else {}, **more))


def affinity_queue(
    name: str,
    required: list[str] = [],  # noqa: B006 - only read
    preferred: list[str] = [],  # noqa: B006
    forbidden: list[str] = [],  # noqa: B006
    avoided: list[str] = [],  # noqa: B006
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A queue with node groups it requires, prefers, must not use and avoids."""
    hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    if required or preferred or forbidden or avoided:
        spec["affinity"] = {
            "nodeGroupAffinity": {hard: required, soft: preferred},
            "nodeGroupAntiAffinity": {hard: forbidden, soft: avoided},
        }
    return typed(manifests.queue(name, annotations=annotations, **spec))


def node_group(name: str, nodes: list[str] | None = None, labels: dict[str, str] | None = None) -> Object:
    spec = {"nodes": nodes or [], "matchLabels": labels or {}}
    return typed(manifest("groupmanagement.kubeedge.io/v1alpha1", "NodeGroup", name, spec=spec))


def pod_group(name: str, queue: str = "default", members: int = 1, annotations: dict[str, str] | None = None) -> Object:
    given = {"queue": queue, "minMember": members}
    return typed(manifests.group(name, namespace="d", phase="Inqueue", annotations=annotations, **given))


def member_pod(
    name: str, group: str, on: str = "", annotations: dict[str, str] | None = None, **amounts: object
) -> Object:
    """A pod of a PodGroup in the namespace d.

    It requests 1 cpu; other amounts are keywords (`nvidia_com__gpu=8` for nvidia.com/gpu), None for no request.
    """
    asked = {k: v for k, v in {"cpu": "1", **_resources(amounts)}.items() if v is not None}
    return typed(manifests.pod(name, namespace="d", group=group, on=on, annotations=annotations, requests=asked))


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
