"""A store that reports the writes of controllers and performs them or not: for dry runs and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import Clock, Listing, Severity, Store, Watch
from muster.store.event_reasons import EventReason

T = TypeVar("T", bound=Object)


class Write(Struct, frozen=True):
    """One write of a controller. `verb` is evict, images, patch, apply, status or delete."""

    at: float
    verb: str
    kind: str
    key: str
    text: str


class DryRunStore:
    """A Store (muster.store) in front of another store. Without `carry_out` nothing is written."""

    def __init__(self, store: Store, on_write: Callable[[Write], None], *, carry_out: bool) -> None:
        self._store = store
        self._on_write = on_write
        self._carry_out = carry_out

    @property
    def clock(self) -> Clock:
        return self._store.clock

    # --- reading

    def get(self, kind: type[T], key: str) -> T:
        return self._store.get(kind, key)

    def whole(self, kind: type[Object], key: str) -> dict[str, Any]:
        return self._store.whole(kind, key)

    def list(self, kind: type[T], namespace: str = "") -> Listing[T]:
        return self._store.list(kind, namespace)

    def watch(self, since: str, kinds: Sequence[type[Object]] = ()) -> Watch:
        return self._store.watch(since, kinds)

    # --- writing

    def create(self, obj: T) -> T:
        self._note("create", type(obj), key_of(obj), "")
        return self._store.create(obj) if self._carry_out else obj

    def update(self, obj: T) -> T:
        self._note("update", type(obj), key_of(obj), "")
        return self._store.update(obj) if self._carry_out else obj

    def update_status(self, obj: T) -> T:
        self._note("status", type(obj), key_of(obj), "")
        return self._store.update_status(obj) if self._carry_out else obj

    def patch(self, kind: type[T], key: str, merge: Mapping[str, Any], *, status: bool = False) -> T:
        self._note("status" if status else "patch", kind, key, ", ".join(_changes(merge)))
        return self._store.patch(kind, key, merge, status=status) if self._carry_out else self._store.get(kind, key)

    def apply(self, kind: type[T], key: str, fields: Mapping[str, Any], *, manager: str) -> T:
        self._note("apply", kind, key, ", ".join(_changes(fields)) or f"nothing more of {manager}")
        return self._store.apply(kind, key, fields, manager=manager) if self._carry_out else self._store.get(kind, key)

    def delete(self, kind: type[Object], key: str, *, grace: int | None = None, uid: str = "") -> None:
        self._note("delete", kind, key, "")
        if self._carry_out:
            self._store.delete(kind, key, grace=grace, uid=uid)

    def bind(self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str = "") -> Pod:
        self._note("bind", Pod, key, f"to node {node}")
        return self._store.bind(key, node, annotations, uid=uid) if self._carry_out else self._store.get(Pod, key)

    def set_images(self, key: str, images: Mapping[str, str], *, uid: str = "") -> Pod:
        self._note("images", Pod, key, ", ".join(f"{name} to {image}" for name, image in sorted(images.items())))
        return self._store.set_images(key, images, uid=uid) if self._carry_out else self._store.get(Pod, key)

    def evict(self, key: str, *, by: str, rule: str, grace: int | None = None, uid: str = "") -> None:
        self._note("evict", Pod, key, f"from node {self._store.get(Pod, key).spec.node_name}, for {by}")
        if self._carry_out:
            self._store.evict(key, by=by, rule=rule, grace=grace, uid=uid)

    def event(self, obj: Object, severity: Severity, reason: EventReason, message: str) -> None:
        if self._carry_out:
            self._store.event(obj, severity, reason, message)

    def _note(self, verb: str, kind: type[Object], key: str, text: str) -> None:
        self._on_write(Write(self._store.clock.now(), verb, kind.__name__, key, text))


def _changes(merge: Mapping[str, Any], path: str = "") -> list[str]:
    """Describes a merge patch: the fields that are set and removed."""
    found = []
    for name, value in sorted(merge.items()):
        if name in ("resourceVersion", "uid") and path == "metadata":
            continue
        place = name if path in ("metadata.labels", "metadata.annotations") else f"{path}.{name}".lstrip(".")
        if isinstance(value, Mapping):
            found += _changes(value, place)
        else:
            found.append(f"{place} removed" if value is None else f"{place}={value}")
    return found
