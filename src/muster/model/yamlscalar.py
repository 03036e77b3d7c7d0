"""Resolves plain YAML scalars, for every reader of the repository.

``true``/``false``, ``null`` and decimal numbers mean themselves; everything else is text. So ``yes``, ``on``, ``0o7``,
``0x1F``, ``010``, ``1_000``, ``1:30``, dates, ``.inf`` and ``.nan`` are text, and ``1e3`` is a float. Nothing that is
read can turn into a value that JSON could not carry.
"""

from __future__ import annotations

import re
from math import isfinite

__all__ = ["Scalar", "resolve"]

Scalar = None | bool | int | float | str

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
# A leading zero is text: YAML 1.1 reads 010 as eight and YAML 1.2 as ten, so the writer may have meant either.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS = 1000  # far beyond any quantity, and below the length Python refuses to convert


def resolve(text: str) -> Scalar:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_DIGITS or text[0] not in "-+.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if isfinite(number) else text
    return text
