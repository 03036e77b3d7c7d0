"""`muster plugins`: the plugins, their extension points and their arguments.

The table is computed from the classes, so that it cannot be out of date.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import row, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from muster.engine.core.hooks import Plugin


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One plugin in the table of plugins and their extension points."""

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


@click.command()
@options.output("table", "json")
@options.verbosity
def plugins(form: str, verbosity: int) -> None:
    """Show which plugin does what (plugin × extension point), with its arguments and their defaults."""
    from muster.cli.answer import console, print_json
    from muster.cycle.registry import broken, extension_points

    rows = matrix()
    for name, why in broken().items():
        click.echo(f"muster: warning: plugin {name} is left out: {why}", err=True)
    if form == "json":
        points = {name: kind.switch for name, kind in extension_points().items()}
        print_json({"plugins": [row.to_dict() for row in rows], "extension_points": points})
    else:
        show_matrix(console(), rows, list(extension_points()))


def show_matrix(console: Console, rows: Sequence[PluginRow], points: Sequence[str]) -> None:
    """Prints the matrix with extension points in rows, because a terminal is too narrow for them as columns."""
    does = table("Which plugin does what", "plugin", "extension points", "what it is for")
    for plugin in rows:
        row(does, plugin.name, " ".join(plugin.hooks), plugin.about)
    console.print(does)
    used = table("Who answers what", "extension point", "plugins")
    for point in points:
        row(used, point, ", ".join(plugin.name for plugin in rows if point in plugin.hooks) or "–")
    console.print(used)
    takes = table("Arguments", "plugin", "argument", "meaning (default)")
    for plugin in rows:
        for i, (argument, meaning) in enumerate(plugin.arguments.items()):
            row(takes, plugin.name if i == 0 else "", argument, meaning)
    console.print(takes)


def matrix() -> list[PluginRow]:
    """Returns every installed plugin, by name."""
    from muster.cycle.registry import PLUGINS, extension_points, package_of, plugin_class, third_party

    points = extension_points()
    rows = []
    for name in sorted([*PLUGINS, *third_party()]):
        cls = plugin_class(name)
        does = tuple(point for point, kind in points.items() if issubclass(cls, kind))
        rows.append(PluginRow(name, _about(cls), does, dict(sorted(cls.arguments.items())), package_of(name)))
    return rows


def _about(cls: type[Plugin]) -> str:
    module = inspect.getmodule(cls)
    first = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
    prefix, colon, rest = first.partition(": ")
    return rest if colon and prefix.replace("_", "-") == cls.name else first
