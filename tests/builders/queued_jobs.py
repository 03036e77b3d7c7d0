"""Clusters described by queues and jobs: a job is a group with running and pending pods of one size."""

from __future__ import annotations

from typing import Any, TypeVar

from builders import manifests
from builders.manifests import state_of, typed
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model import kinds
from muster.model.meta import Object

P = TypeVar("P", bound=Plugin)


def made(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> Object:
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": meta, **parts})


def node(name: str = "n1", cpu: object = 10, memory: object = "10Gi", pods: int = 110, gpus: int = 0) -> Object:
    return typed(manifests.node(name, cpu=cpu, memory=memory, pods=pods, resources={"nvidia.com/gpu": gpus}))


def queue(name: str, state: str = "Open", notes: dict[str, str] | None = None, **spec: Any) -> Object:
    return typed(manifests.queue(name, state=state, annotations=notes, **spec))


def budget(name: str, labels: dict[str, str], allowed: int | None = None, **spec: Any) -> Object:
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    spec["selector"] = {"matchLabels": labels}
    return made("policy/v1", "PodDisruptionBudget", {"name": name, "namespace": "d"}, spec=spec, status=status)


def pod(name: str, group: str, on: str = "", notes: dict[str, str] | None = None, **more: Any) -> Object:
    """`asks` is its request; other keywords are those of `manifests.pod`."""
    more.setdefault("namespace", "d")
    asks = more.pop("asks", {"cpu": 1})
    return typed(manifests.pod(name, group=group, on=on, annotations=notes, requests=asks, **more))


def group(name: str, queue: str = "q", least: int = 1, phase: str = "Inqueue", **more: Any) -> Object:
    """`notes` are its annotations; other keywords are those of `manifests.group`."""
    more.setdefault("namespace", "d")
    notes = more.pop("notes", None)
    return typed(manifests.group(name, queue=queue, minMember=least, phase=phase, annotations=notes, **more))


def job(name: str, queue: str = "q", running: int = 0, waiting: int = 0, on: str = "n1", **more: Any) -> list[Object]:
    """A group and its pods, `name-0` …: the running ones first. `asks` is what each pod requests."""
    asks = more.pop("asks", {"cpu": 1})
    more.setdefault("phase", "Running" if running else "Inqueue")
    pods = [pod(f"{name}-{i}", name, on if i < running else "", asks=asks) for i in range(running + waiting)]
    return [group(name, queue, **more), *pods]


def world(*objects: Object | list[Object]) -> State:
    return state_of(*objects)


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
