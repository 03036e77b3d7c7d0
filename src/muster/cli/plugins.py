"""`muster plugins`: what there is to configure."""

from __future__ import annotations

import click

from muster.cli import options


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
        print_json({"plugins": [row.as_dict() for row in rows], "extension_points": points})
    else:
        from muster.cli.tables.matrix import show_matrix

        show_matrix(console(), rows, list(extension_points()))
