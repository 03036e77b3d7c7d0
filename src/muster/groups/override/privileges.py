"""What a namespaced policy may not give to a pod: it must not be a way up.

Both sides are looked at as results, so that it does not matter by which path a privilege came: what the edition has
and the template had not, is refused. Removing a restriction (a dropped capability, a user other than root) counts too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["gained"]

_HOST = ("hostNetwork", "hostPID", "hostIPC")
_USER: tuple[str, ...] = ("runAsUser", "runAsNonRoot")
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def gained(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What the pod `after` is given that `before` had not, in words, sorted."""
    old, new = _mapping(before.get("spec")), _mapping(after.get("spec"))
    had = set(_privileges(old))
    found = {privilege for privilege in _privileges(new) if privilege not in had}
    kept = {who: set(limits) for who, limits in _restrictions(new)}
    for who, limits in _restrictions(old):
        now = kept.get(who)
        if now is not None:  # a container that is gone does no harm
            found.update(f"{who} without {limit}" for limit in limits if limit not in now and not _covered(limit, now))
    return sorted(found)


def _privileges(spec: dict[str, Any]) -> Iterator[str]:
    yield f"serviceAccountName {spec.get('serviceAccountName') or spec.get('serviceAccount') or 'default'}"
    for field in _HOST:
        if spec.get(field):
            yield field
    for volume in _mappings(spec.get("volumes")):
        if "hostPath" in volume:
            yield f"hostPath volume {_mapping(volume['hostPath']).get('path')}"
    for who, context in _contexts(spec):
        if context.get("privileged"):
            yield f"privileged for {who}"
        if _mapping(context.get("windowsOptions")).get("hostProcess"):
            yield f"hostProcess for {who}"
        if context.get("runAsUser") == 0:
            yield f"runAsUser 0 for {who}"
        for name in _texts(_mapping(context.get("capabilities")).get("add")):
            yield f"capability {name} for {who}"


def _restrictions(spec: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for who, context in _contexts(spec):
        limits = [f"dropping {name}" for name in _texts(_mapping(context.get("capabilities")).get("drop"))]
        if context.get("runAsUser") or context.get("runAsNonRoot"):
            limits.append("a user other than root")
        yield who, limits


def _covered(limit: str, now: set[str]) -> bool:
    return limit.startswith("dropping ") and "dropping ALL" in now


def _contexts(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pod's security context, and every container's, which begins with the pod's user."""
    pod = _mapping(spec.get("securityContext"))
    yield "the pod", pod
    inherited: dict[str, Any] = {field: pod[field] for field in _USER if field in pod}
    for field in _CONTAINERS:
        for container in _mappings(spec.get(field)):
            yield f"container {container.get('name')}", {**inherited, **_mapping(container.get("securityContext"))}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
