"""Sessions, plugins and tasks, for tests that call filters and scores directly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.config.types import Arguments, Config, PluginOption
from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.state import State


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
