"""The command line: one file a verb, and the wiring of the rooms."""

from __future__ import annotations

import click

from muster import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="muster")
def main() -> None:
    """Gather pods onto the right group of nodes."""
