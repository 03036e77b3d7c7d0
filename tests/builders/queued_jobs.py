"""Clusters said as queues and jobs: a job is a group with so many running and so many waiting pods of one size."""

from __future__ import annotations

from typing import Any, TypeVar

from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model import kinds
from muster.model.meta import Object, key

P = TypeVar("P", bound=Plugin)
_SCHEDULING = "scheduling.volcano.sh/v1beta1"


def made(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> Object:
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": meta, **parts})


def node(name: str = "n1", cpu: object = 10, memory: object = "10Gi", pods: int = 110, gpus: int = 0) -> Object:
    offered = {"cpu": cpu, "memory": memory, "pods": pods, "nvidia.com/gpu": gpus}
    return made("v1", "Node", {"name": name}, status={"allocatable": offered})


def queue(name: str, state: str = "Open", notes: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": name, "annotations": notes or {}}
    return made(_SCHEDULING, "Queue", meta, spec=spec, status={"state": state})


def budget(name: str, labels: dict[str, str], allowed: int | None = None, **spec: Any) -> Object:
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    spec["selector"] = {"matchLabels": labels}
    return made("policy/v1", "PodDisruptionBudget", {"name": name, "namespace": "d"}, spec=spec, status=status)


def pod(name: str, group: str, on: str = "", notes: dict[str, str] | None = None, **more: Any) -> Object:
    """`asks` is its request; `labels`, `namespace`, `phase` as one expects; other keywords are fields of the spec."""
    meta = {
        "name": name,
        "namespace": more.pop("namespace", "d"),
        "labels": more.pop("labels", {}),
        "annotations": {"scheduling.k8s.io/group-name": group, **(notes or {})},
    }
    phase = more.pop("phase", "Running" if on else "Pending")
    main = {"name": "main", "resources": {"requests": more.pop("asks", {"cpu": 1})}}
    return made("v1", "Pod", meta, spec={"containers": [main], "nodeName": on, **more}, status={"phase": phase})


def group(name: str, queue: str = "q", least: int = 1, phase: str = "Inqueue", **more: Any) -> Object:
    meta = {"name": name, "namespace": more.pop("namespace", "d"), "annotations": more.pop("notes", {})}
    meta["creationTimestamp"] = more.pop("created", None)
    spec = {"queue": queue, "minMember": least, **more}
    return made(_SCHEDULING, "PodGroup", meta, spec=spec, status={"phase": phase})


def job(name: str, queue: str = "q", running: int = 0, waiting: int = 0, on: str = "n1", **more: Any) -> list[Object]:
    """A group and its pods, `name-0` …: the running ones first. `asks` is what each pod requests."""
    asks = more.pop("asks", {"cpu": 1})
    more.setdefault("phase", "Running" if running else "Inqueue")
    pods = [pod(f"{name}-{i}", name, on if i < running else "", asks=asks) for i in range(running + waiting)]
    return [group(name, queue, **more), *pods]


def world(*objects: Object | list[Object]) -> State:
    held: dict[str, dict[str, Object]] = {}
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            held.setdefault(type(one).__name__, {})[key(one)] = one
    state = State()
    state.load(held)
    return state


def option(name: str, arguments: dict[str, Any] | None = None, **switches: bool) -> PluginOption:
    return PluginOption(name, switches, Arguments(arguments or {}, owner=name, file="scheduler.yaml"))


def session(state: State, *plugins: PluginOption | str, now: float = 0.0) -> Session:
    """One tier of plugins; all actions are configured."""
    options = tuple(p if isinstance(p, PluginOption) else option(p) for p in plugins)
    config = Config(("enqueue", "allocate", "backfill", "reclaim", "preempt"), (Tier(options),))
    return Session(state, config, [[plugin_class(o.name)(o.arguments, o) for o in options]], now)


def opened(kind: type[P], state: State, arguments: dict[str, Any] | None = None, **switches: bool) -> tuple[Session, P]:
    """A session with this one plugin, and the plugin."""
    live = session(state, option(kind.name, arguments, **switches))
    plugin = live.plugins[0]
    assert isinstance(plugin, kind)
    return live, plugin


def task(state: State, name: str) -> Task:
    return state.tasks[name if "/" in name else f"d/{name}"]


def tasks(state: State, *names: str) -> list[Task]:
    return [task(state, name) for name in names]


def of(state: State, name: str) -> Job:
    return state.jobs[f"d/{name}"]


def named(state: State, name: str) -> Queue:
    return state.queues[name]
