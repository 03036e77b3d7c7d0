"""`muster plugins`: the plugins, their extension points and their arguments.

The table is computed from the classes, so that it cannot be out of date.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import row, styled, table
from muster.cli.help import Command

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
        """Returns what `muster plugins -o json` prints of it."""
        return {
            "name": self.name, "about": self.about, "hooks": list(self.hooks), "arguments": self.arguments,
            "package": self.package,
        }  # fmt: skip

    @property
    def defaults(self) -> dict[str, str]:
        """The defaults of the arguments that have one: what a meaning has in parentheses at its end."""
        found = {name: re.search(r" \(([^()]*)\)$", meaning) for name, meaning in self.arguments.items()}
        return {name: match[1] for name, match in found.items() if match is not None}


@click.command(cls=Command, example="muster plugins binpack")
@click.argument("name", required=False)
@options.output("table", "json")
@options.verbosity
def plugins(name: str | None, form: str, verbosity: int) -> None:
    """Show which plugin does what, and its arguments.

    With NAME, shows one plugin: what it does, its extension points, its arguments and an example of its configuration.
    """
    from muster.cli.answer import console, print_json
    from muster.cycle.registry import broken, extension_points

    rows = matrix()
    for plugin, why in broken().items():
        click.echo(f"muster: warning: plugin {plugin} is left out: {why}", err=True)
    if name is not None:
        one = _find(name, rows)
        if form == "json":
            print_json({**one.to_dict(), "defaults": one.defaults, "example": example(one)})
        else:
            show_plugin(console(), one)
    elif form == "json":
        points = {name: kind.switch for name, kind in extension_points().items()}
        print_json({"plugins": [row.to_dict() for row in rows], "extension_points": points})
    else:
        show_matrix(console(), rows, list(extension_points()))


def _find(name: str, rows: Sequence[PluginRow]) -> PluginRow:
    from muster.cli.reading import BadInput
    from muster.config.names import suggest

    found = next((row for row in rows if row.name == name), None)
    if found is None:
        raise BadInput(f"muster: there is no plugin {name!r}: {suggest(name, [row.name for row in rows])}")
    return found


def show_plugin(console: Console, plugin: PluginRow) -> None:
    """Prints all about one plugin."""
    from muster.cycle.registry import extension_points

    kinds = extension_points()
    console.print(styled(plugin.name, "bold"))
    console.print(f"{plugin.about[:1].upper()}{plugin.about[1:]}")
    console.print(f"It is part of {plugin.package}.")
    points = table("Extension points", "extension point", "switch", "what it is for")
    for hook in plugin.hooks:
        row(points, hook, kinds[hook].switch or "–", first_sentence(kinds[hook]))
    console.print(points)
    if plugin.arguments:
        takes = table("Arguments", "argument", "default", "meaning")
        for argument, meaning in plugin.arguments.items():
            default = plugin.defaults.get(argument, "")
            row(takes, argument, default or "–", meaning.removesuffix(f" ({default})"))
        console.print(takes)
    console.print(styled("Example", "bold"))
    console.print(example(plugin).rstrip())


def example(plugin: PluginRow) -> str:
    """Returns a part of a configuration that names the plugin, with the defaults of its arguments."""
    from muster.cycle.configure import configure, effective
    from muster.cycle.scheduler import Scheduler
    from muster.model.yamltext import dump, load_all

    config, _ = configure(dump({"actions": "allocate", "tiers": [{"plugins": [{"name": plugin.name}]}]}), plugin.name)
    entry: dict[str, object] = {"name": plugin.name}
    arguments = effective(Scheduler(config))["tiers"][0]["plugins"][0].get("arguments") or {
        argument: load_all(default, argument)[0].value for argument, default in plugin.defaults.items()
        if "*" not in argument and re.fullmatch(r"[\w.-]+", default)
    }  # fmt: skip
    if arguments:
        entry["arguments"] = arguments
    return dump({"tiers": [{"plugins": [entry]}]})


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
    first = first_sentence(inspect.getmodule(cls))
    prefix, colon, rest = first.partition(": ")
    return rest if colon and prefix.replace("_", "-") == cls.name else first


def first_sentence(documented: object) -> str:
    """Returns the first paragraph of a docstring in one line."""
    return (inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")
