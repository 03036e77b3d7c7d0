"""Tables for people: their look, and how long lists are shortened. rich is imported when a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


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
