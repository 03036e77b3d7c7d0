"""The tables of `muster plugins`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from muster.cli.tables.parts import row, table
from muster.cycle.matrix import PluginRow


def show_matrix(console: Console, rows: Sequence[PluginRow], points: Sequence[str]) -> None:
    """Extension points stand in rows: there are more of them than a terminal has room for side by side."""
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
