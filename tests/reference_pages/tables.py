"""Tables in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return lines + [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]


def cell(value: object) -> str:
    """A text that does not end its cell."""
    text = str(value).replace("|", "\\|").replace("\n", " ")
    return text if "`" in text else text.replace("<", "&lt;")


def paragraph(text: str) -> list[str]:
    """The lines of a paragraph."""
    return textwrap.wrap(text, 119, break_long_words=False, break_on_hyphens=False)
