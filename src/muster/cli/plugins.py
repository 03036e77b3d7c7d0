"""`muster plugins`: what there is to configure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import row, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from muster.cycle.matrix import PluginRow


@click.command()
@options.output("table", "json")
@options.verbosity
def plugins(form: str, verbosity: int) -> None:
    """Show which plugin does what (plugin × extension point), with its arguments and their defaults."""
    from muster.cli.answer import console, print_json
    from muster.cycle.matrix import extension_points, matrix
    from muster.cycle.registry import broken

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
