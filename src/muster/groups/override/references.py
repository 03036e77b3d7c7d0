"""What a pod refers to outside itself: Secrets, claims, host paths, CSI volumes, tokens, and how it mounts them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from posixpath import normpath
from typing import Any, NamedTuple

from muster.groups.override.pod_security import Plain, containers, mapping, mappings, source_of

__all__ = ["Mount", "Reference", "mounts", "new_mounts", "new_references", "references"]

# Volumes whose content is the pod's own or read-only by nature; their mounts are free.
_FREE = frozenset({"configMap", "downwardAPI", "emptyDir", "image", "projected", "secret"})
_PROPAGATION = {"HostToContainer": 1, "Bidirectional": 2}


class Reference(NamedTuple):
    """An object outside the pod. `part`: one key of it; empty: all of it."""

    kind: str
    name: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f", key {self.part}" if self.part else "")


class Mount(NamedTuple):
    """How a container sees a volume: which part of it, whether it may write, and which mounts of the host it gets."""

    volume: Reference
    path: str  # the subPath; empty: all of the volume
    writable: bool
    propagation: int

    def __str__(self) -> str:
        part = f" at {self.path}" if self.path else ""
        return f"{'writable' if self.writable else 'read-only'} mount of {self.volume}{part}"


def references(pod: Plain) -> Iterator[Reference]:
    """What the pod refers to, without imagePullSecrets: they are for the kubelet, not for the containers."""
    for container in containers(pod):
        for variable in mappings(container.get("env")):
            secret = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
            if secret:
                yield Reference("Secret", str(secret.get("name")), str(secret.get("key")))
        for source in mappings(container.get("envFrom")):
            if source.get("secretRef") is not None:
                yield Reference("Secret", str(mapping(source["secretRef"]).get("name")))
    for volume in mappings(mapping(pod.get("spec")).get("volumes")):
        for kind, source in volume.items():
            yield from _of_volume(kind, mapping(source))


def _of_volume(kind: str, source: Plain) -> Iterator[Reference]:
    if kind == "secret":
        yield from _keys(str(source.get("secretName")), source)
    elif kind == "projected":
        for part in mappings(source.get("sources")):
            if part.get("secret") is not None:
                yield from _keys(str(mapping(part["secret"]).get("name")), mapping(part["secret"]))
            if part.get("serviceAccountToken") is not None:
                audience = mapping(part["serviceAccountToken"]).get("audience")
                yield Reference("projected token", f"for {audience or 'the API server'}")
            if part.get("podCertificate") is not None:
                yield Reference("pod certificate", str(mapping(part["podCertificate"]).get("signerName")))
    elif (named := _outside(kind, source)) is not None:
        yield named
        yield from _secrets(source)


def _outside(kind: str, source: Plain) -> Reference | None:
    """The reference of a volume whose content comes from outside the pod; None for other volumes."""
    match kind:
        case "persistentVolumeClaim":
            return Reference("PersistentVolumeClaim", str(source.get("claimName")))
        case "hostPath":
            return Reference("hostPath", normpath(str(source.get("path"))))
        case "csi" | "ephemeral":
            content = {field: value for field, value in source.items() if field != "readOnly"}
            return Reference("CSI volume" if kind == "csi" else "ephemeral volume claim", _text(content))
        case "name":
            return None
    return None if kind in _FREE else Reference(f"{kind} volume", _text(source))


def _keys(name: str, source: Plain) -> Iterator[Reference]:
    items = mappings(source.get("items"))
    yield from (Reference("Secret", name, str(item.get("key"))) for item in items)
    if not items:
        yield Reference("Secret", name)


def _secrets(value: Any) -> Iterator[Reference]:
    """The Secrets that a volume's driver is given (nodePublishSecretRef, secretRef)."""
    for field, inner in mapping(value).items():
        if field.endswith("ecretRef"):
            yield Reference("Secret", str(mapping(inner).get("name")))
        else:
            yield from _secrets(inner)


def new_references(before: Iterable[Reference], after: Iterable[Reference]) -> list[Reference]:
    """The references that the pod did not have before, neither to the whole object nor to the same key."""
    had = set(before)
    return [one for one in dict.fromkeys(after) if one not in had and one._replace(part="") not in had]


def mounts(pod: Plain) -> Iterator[Mount]:
    """The mounts of volumes whose content comes from outside the pod."""
    volumes: dict[Any, tuple[Reference, Plain]] = {}
    for volume in mappings(mapping(pod.get("spec")).get("volumes")):
        kind, source = source_of(volume)
        outside = _outside(kind, source)
        if outside is not None:
            volumes[volume.get("name")] = (outside, source)
    for container in containers(pod):
        for mount in mappings(container.get("volumeMounts")):
            if mount.get("name") in volumes:
                outside, source = volumes[mount["name"]]
                path = str(mount.get("subPath") or mount.get("subPathExpr") or "").strip("/")
                writable = not (mount.get("readOnly") or source.get("readOnly"))
                yield Mount(outside, path, writable, _PROPAGATION.get(str(mount.get("mountPropagation")), 0))
        for device in mappings(container.get("volumeDevices")):
            if device.get("name") in volumes:
                outside, source = volumes[device["name"]]
                yield Mount(outside, "", not source.get("readOnly"), 0)


def new_mounts(before: Iterable[Mount], after: Iterable[Mount]) -> list[Mount]:
    """Mounts by which the pod sees or writes more of a volume than before."""
    had = list(before)
    return [one for one in dict.fromkeys(after) if not any(_covers(old, one) for old in had)]


def _covers(old: Mount, new: Mount) -> bool:
    inside = old.path in ("", new.path) or (new.path.startswith(f"{old.path}/") and ".." not in new.path)
    may = old.writable >= new.writable and old.propagation >= new.propagation
    return old.volume == new.volume and inside and may


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
