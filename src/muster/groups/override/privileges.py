"""The privileges that an edition gains over its template: a policy must not grant what its author may not have.

Only the two resulting pods are compared, so it does not matter which override granted a privilege. An edition must
satisfy every control of Pod Security "restricted" that its template satisfies; containers are compared by their names,
and a container with a new name must satisfy all of them. Besides, an edition refers to no other identity, Secret,
volume outside the pod, node, scheduler or runtime than its template, and does not write muster's own labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.groups.applications import DOMAIN
from muster.groups.override.pod_security import (
    CONTAINERS,
    Plain,
    container_violations,
    containers,
    is_windows,
    mapping,
    mappings,
    pod_violations,
    source_of,
    texts,
)
from muster.groups.override.references import mounts, new_mounts, new_references, references

__all__ = ["Gain", "gained", "is_own"]

POD = "the pod"
_OWN = ("muster.io", DOMAIN)
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
_FREE = ("image", "command", "args")
# An edition has these as its template has them; a field that is not given has its default.
_FIXED = {"schedulerName": "default-scheduler", "runtimeClassName": ""}


class Gain(NamedTuple):
    """A privilege that the template does not have: of the pod or a container, by control."""

    who: str
    control: str
    what: str

    def __str__(self) -> str:
        return f"{self.who}: {self.control}: {self.what}"


def gained(before: Plain, after: Plain) -> list[Gain]:
    """The privileges of the pod `after` that the pod `before` does not have."""
    if _without_free_fields(before) == _without_free_fields(after):
        return []  # the usual case, thousands of times: only images and commands differ
    found = [*_controls(before, after), *_pod(before, after), *_own(before, after)]
    return list(dict.fromkeys(found))


def _without_free_fields(pod: Plain) -> Plain:
    """The pod without the fields of containers that may always change."""
    spec = mapping(pod.get("spec"))
    lists = {field: [_limits(one) for one in mappings(spec.get(field))] for field in CONTAINERS if field in spec}
    return {"metadata": pod.get("metadata"), **spec, **lists}


def _limits(container: Plain) -> Plain:
    return {field: value for field, value in container.items() if field not in _FREE}


def is_own(name: str) -> bool:
    """Whether it is the name of a label, an annotation or a scheduling gate of muster."""
    domain = name.rpartition("/")[0]
    return any(domain == own or domain.endswith(f".{own}") for own in _OWN)


# --- Pod Security "restricted"


def _controls(before: Plain, after: Plain) -> Iterator[Gain]:
    had = set(pod_violations(before))
    yield from (Gain(POD, *one) for one in pod_violations(after) if one not in had)
    known = {container.get("name"): container for container in containers(before)}
    windows = is_windows(before)
    for container in containers(after):
        name = container.get("name")
        old = known.get(name)
        who = f"container {name}" if old is not None else f"new container {name}"
        had = set() if old is None else set(container_violations(old, before, windows=windows))
        # An edition that becomes a Windows pod is not exempt from what its template satisfies.
        for one in container_violations(container, after, windows=windows and is_windows(after)):
            if one not in had:
                yield Gain(who, *one)
        if old is not None:
            yield from _capabilities(who, old, container)
            if _hides_token(old, before) and not _hides_token(container, after):
                yield Gain(who, "Service account", f"nothing else is mounted at {_TOKEN}")


def _capabilities(who: str, old: Plain, new: Plain) -> Iterator[Gain]:
    """Beyond the standard: a capability that was dropped by name, or that is permitted and was not added."""
    (adds, drops), (new_adds, new_drops) = (_changes(one) for one in (old, new))
    for name in sorted(drops - new_drops):
        if "ALL" not in new_drops:
            yield Gain(who, "Capabilities", f"does not drop {name}")
    for name in sorted(new_adds - adds):
        yield Gain(who, "Capabilities", f"adds {name}")


def _changes(container: Plain) -> tuple[set[str], set[str]]:
    capabilities = mapping(mapping(container.get("securityContext")).get("capabilities"))
    adds, drops = ({name.upper().removeprefix("CAP_") for name in texts(capabilities.get(f))} for f in ("add", "drop"))
    return adds, drops


# --- identity, references, scheduling


def _pod(before: Plain, after: Plain) -> Iterator[Gain]:
    old, new = mapping(before.get("spec")), mapping(after.get("spec"))
    if _account(old) != _account(new):
        yield Gain(POD, "Service account", f"{_account(new)} in place of {_account(old)}")
    if _rank(new.get("automountServiceAccountToken")) > _rank(old.get("automountServiceAccountToken")):
        yield Gain(POD, "Service account", "automountServiceAccountToken")
    refers = new_references(references(before), references(after))
    yield from (Gain(POD, "References", str(one)) for one in refers)
    for mount in new_mounts(mounts(before), mounts(after)):
        if mount.volume not in refers:
            yield Gain(POD, "References", str(mount))
    host_users = new.get("hostUsers")
    if old.get("hostUsers") is False if host_users is None else host_users and not old.get("hostUsers"):
        yield Gain(POD, "User namespace", "hostUsers")
    for field, default in _FIXED.items():
        is_, was = new.get(field) or default, old.get(field) or default
        if is_ != was:
            yield Gain(POD, field, f"{is_ or 'none'} in place of {was or 'none'}")
    if new.get("nodeName") and new["nodeName"] != old.get("nodeName"):
        yield Gain(POD, "nodeName", str(new["nodeName"]))
    had = _sysctls(old)
    yield from (Gain(POD, "Sysctls", one) for one in _sysctls(new) if one not in had)


def _account(spec: Plain) -> str:
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def _rank(automount: Any) -> int:
    """Orders false < not given (the ServiceAccount decides) < true."""
    return 1 if automount is None else 2 if automount else 0


def _sysctls(spec: Plain) -> list[str]:
    context = mapping(spec.get("securityContext"))
    return [f"{one.get('name')}={one.get('value')}" for one in mappings(context.get("sysctls"))]


def _hides_token(container: Plain, pod: Plain) -> bool:
    """Whether something else is mounted where the API server would mount the service account's token."""
    volumes = {one.get("name"): source_of(one) for one in mappings(mapping(pod.get("spec")).get("volumes"))}
    for mount in mappings(container.get("volumeMounts")):
        if str(mount.get("mountPath")).rstrip("/") == _TOKEN:
            _, source = volumes.get(mount.get("name"), ("", {}))
            return not any("serviceAccountToken" in part for part in mappings(source.get("sources")))
    return False


def _own(before: Plain, after: Plain) -> Iterator[Gain]:
    for field in ("labels", "annotations"):
        old, new = (mapping(mapping(pod.get("metadata")).get(field)) for pod in (before, after))
        for name in (*new, *(name for name in old if name not in new)):
            if is_own(name) and old.get(name) != new.get(name):
                yield Gain(POD, "Labels of muster", f"{field[:-1]} {name}")
    for name in sorted(_gates(before) ^ _gates(after)):
        if is_own(name):
            yield Gain(POD, "Labels of muster", f"scheduling gate {name}")


def _gates(pod: Plain) -> set[str]:
    return {str(gate.get("name")) for gate in mappings(mapping(pod.get("spec")).get("schedulingGates"))}
