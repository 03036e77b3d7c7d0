"""The answer on stdout: JSON as the contract has it, or tables for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console


def print_json(answer: object) -> None:
    """The same bytes for the same answer."""
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def console() -> Console:
    """Tables on stdout: coloured on a terminal, plain and unwrapped when piped; NO_COLOR is respected by rich."""
    import sys

    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())
