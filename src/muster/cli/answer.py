"""The answer on stdout: JSON as the contract has it, or tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 10_000  # the width if stdout is not a terminal: nothing is wrapped or cut


def print_json(answer: object) -> None:
    """The same bytes for the same answer; where stdout cannot take every character, JSON has another spelling."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(answer, indent=2, ensure_ascii=not utf8))


def print_page(page: str) -> None:
    """Prints an HTML page, which declares itself as UTF-8."""
    click.echo(page.encode(), nl=False)


def print_objects(objects: list[dict[str, Any]], form: str) -> None:
    """Kubernetes objects for `kubectl apply -f -`, as YAML or JSON."""
    if form == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
        return
    from muster.model.yamlwrite import dump_all

    # kubectl takes no empty text for a list.
    click.echo(dump_all(objects or [{"apiVersion": "v1", "kind": "List", "items": []}]), nl=False)


def console() -> Console:
    """Tables on stdout: coloured on a terminal, plain and unwrapped in a pipe; NO_COLOR is respected by rich."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(markup=False, highlight=False, emoji=False, width=width)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """On a terminal, a line on stderr once the work takes longer than a second, gone when it is done."""
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
