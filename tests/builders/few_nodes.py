"""A few nodes and pods in a line each, for tests that ask filters and scores directly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.config.types import Arguments, Config, PluginOption
from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Node, Pod
from muster.model.kinds import decode_as


def node(name: str, cpu: object = "4", memory: object = "8Gi", pods: object = 110, **more: Any) -> Node:
    """`offers` are further resources; `labels`, `annotations`, `taints`, `images` and `cordoned` as one expects."""
    spec = {"taints": more.pop("taints", []), "unschedulable": more.pop("cordoned", False)}
    offered = {"cpu": cpu, "memory": memory, "pods": pods, **more.pop("offers", {})}
    meta = {"name": name, "labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
    status = {"allocatable": offered, "images": more.pop("images", [])}
    assert not more, f"unknown: {sorted(more)}"
    return decode_as(Node, {"metadata": meta, "spec": spec, "status": status})


def pod(name: str, on: str = "", **more: Any) -> Pod:
    """`cpu`, `memory`, `gpu`, `image`, `ports` make its container; other keywords are fields of the spec."""
    asked: dict[str, Any] = {key: more.pop(key) for key in ("cpu", "memory") if key in more}
    if "gpu" in more:
        asked["nvidia.com/gpu"] = more.pop("gpu")
    main: dict[str, Any] = {"name": "main", "resources": {"requests": asked}}
    main |= {"image": more.pop("image", "app"), "ports": more.pop("ports", [])}
    spec = {"containers": [main], **more, "nodeName": on}
    meta = {"name": name, "namespace": "default"}
    return decode_as(Pod, {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}})


def state(*objects: Node | Pod) -> State:
    made = State()
    nodes = {o.metadata.name: o for o in objects if isinstance(o, Node)}
    pods = {f"{o.metadata.namespace}/{o.metadata.name}": o for o in objects if isinstance(o, Pod)}
    made.load({"Node": nodes, "Pod": pods})
    return made


def task(of: State, name: str) -> Task:
    return of.tasks[f"default/{name}"]


def session(of: State, *plugins: Plugin) -> Session:
    return Session(of, Config(), [list(plugins)], now=0.0)


def plugin(kind: type[Plugin], **arguments: object) -> Plugin:
    """A plugin with arguments, whose names are written with `__` for a dot."""
    given = Arguments({name.replace("__", "."): value for name, value in arguments.items()})
    return kind(given, PluginOption(kind.name, arguments=given))


def by_node(of: State, values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(of.nodes.names, values, strict=True))
