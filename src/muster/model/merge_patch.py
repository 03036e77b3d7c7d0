"""Computes and applies JSON merge patches (RFC 7386) on plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any], *, whole: bool, path: str = "") -> dict[str, Any]:
    """Returns the merge patch from `old` to `new`; null removes a field.

    A merge patch replaces lists. If the model of a kind is not `whole`, a list of mappings would lose the fields that
    the model does not have, so a difference inside such a list is refused with a ValueError.
    """
    merge: dict[str, Any] = {}
    for name in sorted({*old, *new}):
        place = f"{path}.{name}" if path else name
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            merge[name] = difference(before, after, whole=whole, path=place)
        elif not whole and _has_mappings(before) and not place.startswith("metadata."):
            raise ValueError(f"{place} is a list of which not all is known; patch it by its own kind of patch")
        else:
            merge[name] = after
    return merge


def _has_mappings(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def merged(value: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the value with the patch merged in: mappings key by key, null removes a key, all else is replaced."""
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
