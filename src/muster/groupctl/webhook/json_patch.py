"""Computes the JSON patch (RFC 6902) between two plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.groups.override.pointer import text

Operation = dict[str, Any]


def json_patch(before: Any, after: Any) -> list[Operation]:
    """Returns the operations in the order in which they must be applied."""
    return list(_between(before, after, []))


def _between(before: Any, after: Any, at: list[str]) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            if name not in after:
                yield {"op": "remove", "path": text([*at, name])}
        for name, value in after.items():
            if name not in before:
                yield {"op": "add", "path": text([*at, name]), "value": value}
            else:
                yield from _between(before[name], value, [*at, name])
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for i, value in enumerate(before):
            yield from _between(value, after[i], [*at, str(i)])
        for value in after[len(before) :]:
            yield {"op": "add", "path": text([*at, "-"]), "value": value}
    elif before != after or type(before) is not type(after):
        yield {"op": "replace", "path": text(at), "value": after}
