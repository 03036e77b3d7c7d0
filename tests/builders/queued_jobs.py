"""Clusters described by queues and jobs: a job is a group with running and pending pods of one size."""

from __future__ import annotations

from typing import Any, TypeVar

from builders.manifests import Manifest, group, pod
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model import kinds
from muster.model.meta import Object

P = TypeVar("P", bound=Plugin)


def made(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> Object:
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": meta, **parts})


def budget(name: str, labels: dict[str, str], allowed: int | None = None, **spec: Any) -> Object:
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    spec["selector"] = {"matchLabels": labels}
    return made("policy/v1", "PodDisruptionBudget", {"name": name, "namespace": "default"}, spec=spec, status=status)


def job(name: str, queue: str = "q", running: int = 0, waiting: int = 0, on: str = "n1", **more: Any) -> list[Manifest]:
    """A group and its pods, `name-0` …, the running pods first.

    `least` is its minMember, `asks` is what each pod requests; other keywords are those of `manifests.group`.
    """
    asks = more.pop("asks", {"cpu": 1})
    more.setdefault("phase", "Running" if running else "Inqueue")
    pods = [pod(f"{name}-{i}", name, on if i < running else "", requests=asks) for i in range(running + waiting)]
    return [group(name, queue, minMember=more.pop("least", 1), **more), *pods]


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
    return state.tasks[name if "/" in name else f"default/{name}"]


def tasks(state: State, *names: str) -> list[Task]:
    return [task(state, name) for name in names]


def of(state: State, name: str) -> Job:
    return state.jobs[f"default/{name}"]


def named(state: State, name: str) -> Queue:
    return state.queues[name]


def placed(session: Session, kind: MoveKind) -> dict[str, str]:
    """Pod → node, of the committed moves of this kind."""
    names = session.state.nodes.names
    moves = [move for move in session.committed if move.kind == kind]
    return {task.name: names[n] for move in moves for task, n in zip(move.tasks, move.nodes, strict=True)}


def evicted(session: Session) -> list[str]:
    return sorted(move.task.name for move in session.committed if move.kind == MoveKind.EVICT)


# Of five pods two have failed. Spec of a budget without status → disruptions that its controller would allow.
ALLOWED_DISRUPTIONS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"minAvailable": 2}, 1),
    ({"minAvailable": "50%"}, 1),
    ({"maxUnavailable": 2}, 2),
    ({"maxUnavailable": "34%"}, 2),
    ({"minAvailable": 5}, 0),
    ({}, 0),
)
