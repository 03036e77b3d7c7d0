"""A few nodes and pods, for tests that call filters and scores directly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from builders import manifests
from builders.manifests import state_of, typed
from muster.config.types import Arguments, Config, PluginOption
from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Node, Pod


def node(name: str, cpu: object = "4", memory: object = "8Gi", pods: object = 110, **more: Any) -> Node:
    """`offers` are further resources, `cordoned` is unschedulable; other keywords as those of `manifests.node`."""
    more["unschedulable"] = more.pop("cordoned", False)
    return typed(manifests.node(name, cpu=cpu, memory=memory, pods=pods, resources=more.pop("offers", None), **more))


def pod(name: str, on: str = "", **more: Any) -> Pod:
    """`cpu`, `memory`, `gpu`, `image`, `ports` make its container; other keywords are fields of the spec."""
    asked: dict[str, Any] = {key: more.pop(key) for key in ("cpu", "memory") if key in more}
    if "gpu" in more:
        asked["nvidia.com/gpu"] = more.pop("gpu")
    container = {"image": more.pop("image", "app"), "ports": more.pop("ports", [])}
    return typed(manifests.pod(name, namespace="default", on=on, requests=asked, container=container, **more))


def state(*objects: Node | Pod) -> State:
    return state_of(*objects)


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
