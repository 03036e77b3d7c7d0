"""JSON merge patches (RFC 7386) on plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(value: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The value with the patch merged in: maps key by key, null takes a key away, everything else is replaced."""
    result = dict(value)
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, Mapping):
            old = result.get(name)
            result[name] = merged(old if isinstance(old, Mapping) else {}, change)
        else:
            result[name] = change
    return result
