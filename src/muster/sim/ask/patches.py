"""A change of an object as a document with only the fields that change, for people to read and to apply."""

from __future__ import annotations

from typing import Any

from muster.model.kinds import plain
from muster.model.meta import Object

__all__ = ["patch_of"]


def patch_of(old: Object, new: Object) -> dict[str, Any]:
    """Returns the identity of the object and the fields of `new` that differ from `old`."""
    before, after = plain(old), plain(new)
    meta = {name: after["metadata"][name] for name in ("name", "namespace") if name in after["metadata"]}
    changed = _changed(before, after)
    changed.pop("apiVersion", None)
    changed.pop("kind", None)
    changed["metadata"] = {**meta, **changed.get("metadata", {})}
    order = ["metadata", *(name for name in changed if name != "metadata")]
    return {"apiVersion": after["apiVersion"], "kind": after["kind"], **{name: changed[name] for name in order}}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted({*before, *after}):
        one, two = before.get(name), after.get(name)
        if one == two:
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            found[name] = _changed(one, two)
        elif isinstance(one, list) and isinstance(two, list) and _named(one) and _named(two):
            # Lists of named items are merged by name, as kubectl's strategic merge patch does it.
            known = {item["name"]: item for item in one}
            found[name] = [
                {"name": item["name"], **_changed(known.get(item["name"], {}), item)}
                for item in two if item != known.get(item["name"])
            ]  # fmt: skip
        else:
            found[name] = two
    return found


def _named(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and "name" in item for item in items)
