"""Finds unknown names and the nearest known name for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

__all__ = ["covers", "nearest", "suggest", "unknown_arguments"]

MAX_LISTED_NAMES = 40


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns the most similar name, ignoring case; None if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(names)}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def suggest(name: str, names: Iterable[str]) -> str:
    """Returns what to write instead: the nearest name, else all known names."""
    listed = sorted(names)
    near = nearest(name, listed)
    if near is not None:
        return f"did you mean {near}?"
    if not listed:
        return "remove it: none is known here"
    more = f" and {len(listed) - MAX_LISTED_NAMES} more" if len(listed) > MAX_LISTED_NAMES else ""
    return f"known: {', '.join(listed[:MAX_LISTED_NAMES])}{more}"


def unknown_arguments(
    values: Mapping[str, Any], known: frozenset[str], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yields the paths of arguments that no known name or prefix covers."""
    for key, value in values.items():
        path = (*above, key)
        flat = ".".join(path)
        names_below = any(pattern.startswith(flat + ".") for pattern in known)
        if isinstance(value, dict) and names_below:
            yield from unknown_arguments(value, known, path)
        elif not any(covers(pattern, flat) for pattern in known):
            yield path


def covers(pattern: str, name: str) -> bool:
    """Returns whether the pattern is the name, or a prefix of it that ends in `*`."""
    return name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
