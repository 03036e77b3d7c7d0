"""JSON pointers (RFC 6901), the operations of a JSON patch (RFC 6902) at them, and the patch between two plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["PointerError", "add", "get", "remove", "replace", "text", "tokens"]

Operation = dict[str, Any]


class PointerError(ValueError):
    """The pointer is invalid or does not exist; the message names the step."""


def tokens(pointer: str) -> list[str]:
    """The steps of a pointer, `~1` and `~0` read as `/` and `~`."""
    if not pointer.startswith("/"):
        raise PointerError(f"{pointer!r} is no path: it begins with /")
    steps = pointer[1:].split("/")
    for step in steps:
        for at, letter in enumerate(step):
            if letter == "~" and step[at + 1 : at + 2] not in ("0", "1"):
                raise PointerError(f"{pointer!r} is no path: write ~ as ~0")
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


def text(steps: Sequence[str]) -> str:
    """The pointer of these steps."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def get(value: Any, steps: Sequence[str]) -> Any:
    """The value at the pointer."""
    for i, step in enumerate(steps):
        value = value[_at(value, step, steps[: i + 1])]
    return value


def add(value: Any, steps: Sequence[str], new: Any) -> None:
    """Sets a member, or inserts an item before that index; `-` appends."""
    parent, last = get(value, steps[:-1]), steps[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, steps, len(parent)), new)
    elif isinstance(parent, dict):
        parent[last] = new
    else:
        raise PointerError(f"{text(steps[:-1])} is neither a mapping nor a list")


def replace(value: Any, steps: Sequence[str], new: Any) -> None:
    """Replaces the existing value at the pointer."""
    parent = get(value, steps[:-1])
    parent[_at(parent, steps[-1], steps)] = new


def remove(value: Any, steps: Sequence[str]) -> None:
    """Removes the value at the pointer."""
    parent = get(value, steps[:-1])
    del parent[_at(parent, steps[-1], steps)]


def _at(parent: Any, step: str, steps: Sequence[str]) -> str | int:
    if isinstance(parent, list):
        return _index(parent, step, steps, len(parent) - 1)
    if isinstance(parent, dict) and step in parent:
        return step
    raise PointerError(f"{text(steps)} is not there")


def _index(parent: list[Any], step: str, steps: Sequence[str], last: int) -> int:
    if not (step.isascii() and step.isdigit()) or (step[0] == "0" and step != "0"):
        raise PointerError(f"{text(steps)} is not there: {step!r} is no index of a list")
    if int(step) > last:
        raise PointerError(f"{text(steps)} is not there: the list has {len(parent)} items")
    return int(step)


def patch_between(before: Any, after: Any) -> list[Operation]:
    """Returns the operations that turn `before` into `after`, in the order in which they must be applied."""
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
