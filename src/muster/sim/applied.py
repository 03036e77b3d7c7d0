"""The cluster after `kubectl apply` of manifests: which objects are created or changed, and what they keep.

An object that exists keeps what its manifest does not set and the cluster wrote: its identity, its status, the node of
a pod, the number of replicas (an autoscaler may own it), and defaults in pod templates. Otherwise an unchanged template
would look like a new one, and the simulation would replace the pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from muster.engine.core.state import Objects
from muster.groups.applications import templates_of
from muster.model.core import Pod
from muster.model.kinds import plain
from muster.model.merge_patch import difference
from muster.model.meta import Object, timestamp
from muster.model.meta import key as key_of
from muster.sim.difference import Difference

__all__ = ["ApplyPlan", "AppliedObject", "changes_between", "overlaid", "submitted"]

# What containers run: a snapshot does not have it, and no decision depends on it.
_NOT_IN_SNAPSHOTS = frozenset({"command", "args", "env"})
_KEPT = ("uid", "creation_timestamp", "deletion_timestamp", "resource_version", "generation")


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """An object that the manifests create or change."""

    kind: str
    name: str  # namespace/name; cluster-scoped: name
    created: bool
    fields: Mapping[str, Any] = field(default_factory=dict)  # a JSON merge patch; empty for a new object

    def to_dict(self) -> dict[str, object]:
        what = "created" if self.created else "changed"
        return {"kind": self.kind, "name": self.name, "change": what, "fields": dict(self.fields)}


def submitted(objects: Objects, now: float, namespace: str = "") -> dict[str, dict[str, Object]]:
    """Returns copies of the objects as the API server creates them: now, and in the namespace if they name none."""
    found: dict[str, dict[str, Object]] = {}
    for kind, of_kind in objects.items():
        for key, obj in of_kind.items():
            meta = replace(obj.metadata, creation_timestamp=timestamp(now))
            if namespace and obj.namespaced and meta.namespace == "default":
                meta.namespace = namespace
            made = replace(obj, metadata=meta)
            if meta.uid == key:  # the default of an object without a uid
                meta.uid = key_of(made)
            found.setdefault(kind, {})[key_of(made)] = made
    return found


def overlaid(objects: Objects, changes: Objects) -> dict[str, dict[str, Object]]:
    """Returns the cluster with the changed objects instead of those with the same names."""
    return {
        kind: {**objects.get(kind, {}), **{key: _in_place(objects, kind, key, obj) for key, obj in new.items()}}
        for kind, new in {**{kind: {} for kind in objects}, **changes}.items()
    }


def changes_between(objects: Objects, after: Objects, changes: Objects) -> list[AppliedObject]:
    """Returns which of the changed objects are new, and which differ from those in the cluster and how."""
    found = []
    for kind, key in sorted((kind, key) for kind, new in changes.items() for key in new):
        known = objects.get(kind, {}).get(key)
        if known is None:
            found.append(AppliedObject(kind, key, created=True))
        elif fields := difference(plain(known), plain(after[kind][key]), whole=True):
            found.append(AppliedObject(kind, key, created=False, fields=fields))
    return found


def _in_place(objects: Objects, kind: str, key: str, obj: Object) -> Object:
    known = objects.get(kind, {}).get(key)
    if known is None:
        return obj
    for name in _KEPT:  # owner references name the uid
        setattr(obj.metadata, name, getattr(known.metadata, name))
    if not obj.metadata.owner_references:
        obj.metadata.owner_references = known.metadata.owner_references
    if known.metadata.resource_version:  # written by an API server: other components have added labels
        obj.metadata.labels = {**known.metadata.labels, **obj.metadata.labels}
        obj.metadata.annotations = {**known.metadata.annotations, **obj.metadata.annotations}
    if "status" in type(obj).__struct_fields__ and not to_builtins(getattr(obj, "status")):  # noqa: B009
        setattr(obj, "status", getattr(known, "status"))  # noqa: B009, B010
    spec, was = getattr(obj, "spec", None), getattr(known, "spec", None)
    if getattr(spec, "replicas", 0) is None:
        setattr(spec, "replicas", getattr(was, "replicas"))  # noqa: B009, B010
    if isinstance(obj, Pod) and isinstance(known, Pod):
        if _contained(to_builtins(obj.spec), to_builtins(known.spec)):
            obj.spec = known.spec
        elif known.spec.node_name and not obj.spec.node_name:
            obj.spec = replace(obj.spec, node_name=known.spec.node_name)  # equal pods may share their spec
    for template, old in zip(templates_of(obj), templates_of(known), strict=False):
        if _contained(to_builtins(template), to_builtins(old)):
            template.metadata, template.spec = old.metadata, old.spec
            template.keep(old.written)
    return obj


def _contained(part: Any, whole: Any) -> bool:
    """Returns whether everything that the manifest sets is so in the cluster already."""
    match part, whole:
        case dict(), dict():
            return all(
                _contained(value, whole[name]) if name in whole else name in _NOT_IN_SNAPSHOTS
                for name, value in part.items()
            )
        case list(), list():
            # The API server adds volumes and tolerations at the end.
            return len(part) <= len(whole) and all(map(_contained, part, whole))
    return bool(part == whole)


@dataclass(slots=True)
class ApplyPlan:
    """The objects that are created or changed, and what the scheduler decides otherwise because of them."""

    changes: list[AppliedObject]
    difference: Difference
    unchanged: int = 0  # objects of the manifests that are in the cluster as they are
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster plan -o json` prints."""
        plain: dict[str, object] = {
            "objects": [change.to_dict() for change in self.changes],
            "unchanged": self.unchanged,
            **self.difference.to_dict(),
            "warnings": self.warnings,
        }
        configuration = self.difference.second.configuration
        return plain if configuration is None else {**plain, "configuration": configuration.to_dict()}
