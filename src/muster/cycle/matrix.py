"""The table of plugins and their extension points, computed from the classes, so that it cannot be out of date."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from muster.cycle.registry import PLUGINS, package_of, plugin_class, third_party
from muster.engine.core import hooks
from muster.engine.core.hooks import Hook, Plugin


@dataclass(frozen=True, slots=True)
class PluginRow:
    name: str
    about: str  # the first sentence of its module's docstring
    hooks: tuple[str, ...]
    arguments: dict[str, str]  # name → what it means, and its default
    package: str = "muster"  # the distribution package that provides it, with its version

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name, "about": self.about, "hooks": list(self.hooks), "arguments": self.arguments,
            "package": self.package,
        }  # fmt: skip


def extension_points() -> dict[str, type[Hook]]:
    """Returns every extension point, in the order of the interface."""
    return {
        name: kind for name, kind in vars(hooks).items()
        if isinstance(kind, type) and issubclass(kind, Hook) and kind is not Hook and _asks(kind)
    }  # fmt: skip


def matrix() -> list[PluginRow]:
    """Returns every installed plugin, by name."""
    points = extension_points()
    rows = []
    for name in sorted([*PLUGINS, *third_party()]):
        cls = plugin_class(name)
        does = tuple(point for point, kind in points.items() if issubclass(cls, kind))
        rows.append(PluginRow(name, _about(cls), does, dict(sorted(cls.arguments.items())), package_of(name)))
    return rows


def _asks(kind: type[Hook]) -> bool:
    """Returns whether the class has abstract methods. A class that only collects what others share has none."""
    return bool(getattr(kind, "__abstractmethods__", ()))


def _about(cls: type[Plugin]) -> str:
    module = inspect.getmodule(cls)
    first = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
    prefix, colon, rest = first.partition(": ")
    return rest if colon and prefix.replace("_", "-") == cls.name else first
