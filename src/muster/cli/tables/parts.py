"""What the tables have in common: their look, and how long lists are kept short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text


def table(title: str, *columns: str) -> Table:
    """A table with a title; the cells are taken as they are, never as markup."""
    made = Table(title=Text(title, "bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for column in columns:
        made.add_column(Text(column), overflow="fold")
    return made


def row(to: Table, *cells: object, style: str = "") -> None:
    to.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells), style=style)


def some(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(names: Iterable[str]) -> str:
    """`n1 ×3, n2`."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return some([f"{name} ×{n}" if n > 1 else name for name, n in sorted(counts.items())], 8)


def plural(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
