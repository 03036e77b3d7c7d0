"""Compares a pod with its edition in the fields that the rules changed.

Others change pods, too: the API server sets defaults, admission adds tolerations and volumes. So a field counts only if
template and edition differ in it, mappings may have additional members, and containers, volumes and other named items
are matched by name.
"""

from __future__ import annotations

from typing import Any

__all__ = ["outdated_fields"]


def outdated_fields(template: Any, edition: Any, pod: Any, path: str = "") -> list[str]:
    """The paths of the fields that the rules changed and in which the pod differs from the edition."""
    if template == edition:
        return []
    if isinstance(template, dict) and isinstance(edition, dict):
        return _members(template, edition, pod if isinstance(pod, dict) else {}, path)
    if isinstance(template, list) and isinstance(edition, list):
        before, after, has = _by_name(template), _by_name(edition), _by_name(pod)
        if before is not None and after is not None and has is not None:
            return _members(before, after, has, path)
        return [] if _items(template, edition, pod) else [path]
    return [] if _has(pod, edition) else [path]


def _members(template: dict[str, Any], edition: dict[str, Any], pod: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name in (*template, *(name for name in edition if name not in template)):
        place = f"{path}/{name}"
        if name not in edition:
            # A default of the API server does not come from the template.
            found += [place] if name in pod and _has(pod[name], template[name]) else []
        elif name not in template:
            found += [] if (name in pod and _has(pod[name], edition[name])) or not edition[name] else [place]
        else:
            found += outdated_fields(template[name], edition[name], pod.get(name), place)
    return found


def _items(template: list[Any], edition: list[Any], pod: Any) -> bool:
    if not isinstance(pod, list):
        return not edition
    if not all(isinstance(item, dict) for item in (*template, *edition)):
        return bool(edition == pod)  # commands, arguments: the order counts, and nothing else adds to them
    gone = [item for item in template if item not in edition]
    return all(any(_has(one, item) for one in pod) for item in edition) and not any(item in pod for item in gone)


def _has(pod: Any, wanted: Any) -> bool:
    """Whether the pod's value contains the wanted value."""
    if isinstance(wanted, dict):
        return isinstance(pod, dict) and all(_has(pod.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(pod, list):
        items, has = _by_name(wanted), _by_name(pod)
        if items is not None and has is not None:
            return _has(has, items)
        return _items([], wanted, pod)
    return bool(pod == wanted) or (not pod and not wanted)


def _by_name(items: Any) -> dict[str, Any] | None:
    """The items by name; None if not all items have names."""
    if items is None:
        return {}
    if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("name"), str) for i in items):
        return None
    return {item["name"]: item for item in items}
