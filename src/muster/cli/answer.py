"""Writes the answer of a command to stdout: JSON as the command contract defines it, or tables.

rich is imported only when a table is made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import click

from muster.cli.progress import progress as waiting
from muster.model.markup import visible
from muster.model.natural_order import natural

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "VisibleStream", "console", "counted", "is_wide", "plural", "print_json", "print_objects", "print_page", "row",
    "some", "styled", "table", "waiting",
]  # fmt: skip

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


def is_wide() -> bool:
    """Whether the command was called with `-o wide`: everything is shown."""
    context = click.get_current_context(silent=True)
    return context is not None and context.params.get("form") == "wide"


class VisibleStream:
    """A stream for lines that may contain text of the input: control characters are shown, not executed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        # The line of the progress begins with a carriage return.
        self._stream.write("\r".join(map(visible, text.split("\r"))))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Trimmed:
    """A stream that removes the spaces at the end of lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._rest = stream, ""
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        self._stream.write("".join(f"{line.rstrip(' ')}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        self._stream.write(self._rest.rstrip(" "))
        self._rest = ""
        self._stream.flush()

    def isatty(self) -> bool:
        return False


def console() -> Console:
    """Returns a console on stdout: coloured on a terminal, plain and unwrapped in a pipe. With NO_COLOR set there are
    no escape codes at all, neither for colours nor for bold text."""
    from rich.console import Console

    form: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
    if not sys.stdout.isatty():
        return Console(**form, width=PIPE_COLUMNS, file=cast("IO[str]", _Trimmed(sys.stdout)))
    return Console(**form, color_system=None if os.environ.get("NO_COLOR") else "auto")


def table(title: str, *columns: str) -> Table:
    """Makes a table with a heading ("" for none); the cells are taken as they are, never as markup."""
    from rich import box
    from rich.table import Table

    class Headed(Table):
        """A table below its heading, which may be wider than the table."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
            if title:
                yield styled(title, "bold")
            yield from super().__rich_console__(console, options)

    made = Headed(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(styled(column), overflow="fold")
    return made


def row(to: Table, *cells: object, style: str = "") -> None:
    """Adds a row to a table."""
    from rich.text import Text

    to.add_row(*(cell if isinstance(cell, Text) else Text(visible(str(cell))) for cell in cells), style=style)


def styled(text: str = "", style: str = "") -> Text:
    """Makes a text with a style, never read as markup or as commands of the terminal."""
    from rich.text import Text

    return Text(visible(text), style)


def some(names: Sequence[str], most: int = 5) -> str:
    """Returns the first few names, and how many more there are; all with `-o wide`."""
    most = len(names) if is_wide() else most
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(names: Iterable[str]) -> str:
    """Returns names with their numbers: `n1 ×3, n2`."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return some([f"{name} ×{n}" if n > 1 else name for name, n in sorted(counts.items(), key=_by_name)], 8)


def _by_name(item: tuple[str, object]) -> Any:
    return natural(item[0])


def plural(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
