"""Writes the answer of a command to stdout: JSON as the command contract defines it, or tables.

rich is imported only when a table is made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

PIPE_COLUMNS = 10_000  # the width if stdout is not a terminal: nothing is wrapped or cut


def print_json(answer: object) -> None:
    """Prints the same bytes for the same answer; characters that stdout cannot encode are escaped."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(answer, indent=2, ensure_ascii=not utf8))


def print_page(page: str) -> None:
    """Prints an HTML page, which declares itself as UTF-8."""
    click.echo(page.encode(), nl=False)


def print_objects(objects: list[dict[str, Any]], form: str) -> None:
    """Prints Kubernetes objects for `kubectl apply -f -`, as YAML or JSON."""
    if form == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
        return
    from muster.model.yamltext import dump_all

    # kubectl does not accept an empty text as a list.
    click.echo(dump_all(objects or [{"apiVersion": "v1", "kind": "List", "items": []}]), nl=False)


def console() -> Console:
    """Returns a console on stdout: coloured on a terminal, plain and unwrapped in a pipe; rich respects NO_COLOR."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(markup=False, highlight=False, emoji=False, width=width)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """On a terminal, shows a line on stderr while the work takes longer than a second."""
    if not sys.stderr.isatty():
        yield
        return
    shown = False

    def show() -> None:
        nonlocal shown
        shown = True
        click.echo(f"\r{what} …", err=True, nl=False)

    timer = Timer(1.0, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown:
            click.echo("\r\x1b[K", err=True, nl=False)


def table(title: str, *columns: str) -> Table:
    """Makes a table with a title; the cells are taken as they are, never as markup."""
    from rich import box
    from rich.table import Table

    made = Table(title=styled(title, "bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for column in columns:
        made.add_column(styled(column), overflow="fold")
    return made


def row(to: Table, *cells: object, style: str = "") -> None:
    """Adds a row to a table."""
    from rich.text import Text

    to.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells), style=style)


def styled(text: str = "", style: str = "") -> Text:
    """Makes a text with a style, never read as markup."""
    from rich.text import Text

    return Text(text, style)


def some(names: Sequence[str], most: int = 5) -> str:
    """Returns the first few names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(names: Iterable[str]) -> str:
    """Returns names with their numbers: `n1 ×3, n2`."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return some([f"{name} ×{n}" if n > 1 else name for name, n in sorted(counts.items())], 8)


def plural(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
