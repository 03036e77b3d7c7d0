"""The order of names for people: numbers inside names count as numbers, so that n2 comes before n10."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["natural"]

_DIGITS = re.compile(r"(\d+)", re.ASCII)


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[tuple[str, int, str], ...]:
    """Returns the key by which names are sorted in tables and pages; names that differ have different keys."""
    parts = _DIGITS.split(name)
    # A number is its length and its digits: int() refuses numbers with thousands of digits.
    numbers = [digits.lstrip("0") for digits in parts[1::2]]
    pairs = [(text, len(digits), digits) for text, digits in zip(parts[::2], numbers, strict=False)]
    return (*pairs, (parts[-1], -1, ""), (name, 0, ""))
