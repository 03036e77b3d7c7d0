"""The store in memory: Kubernetes' rules for versions, conflicts, watches and graceful deletion, without the network;
and the virtual clock of the embedded cluster.

Every write raises one version that all kinds share, so resourceVersions order everything that happened. Objects are
replaced, never changed, so a reference to an object keeps its old state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from muster.cluster import pods
from muster.groups.applications import template_path, templates_of
from muster.model.core import Pod
from muster.model.kinds import decode_as, plain
from muster.model.merge_patch import merged
from muster.model.meta import Object, timestamp
from muster.model.meta import key as key_of
from muster.model.pod_states import is_finished, is_terminating
from muster.store import AlreadyExists, Change, Clock, Conflict, Event, Gone, Listing, NotFound, Severity, WatchEvent
from muster.store.event_reasons import EventReason


class VirtualClock:
    """A clock that the simulation sets; it never goes back."""

    def __init__(self, start: float) -> None:
        self.start = start
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, to: float) -> None:
        """Advances to that time; an earlier time changes nothing."""
        self._now = max(self._now, to)


T = TypeVar("T", bound=Object)

# How many events a watch may start back in time.
HISTORY_EVENTS = 4096


class MemoryWatch:
    """The changes that a subscriber has not taken yet."""

    def __init__(self, subscribers: dict[MemoryWatch, None], kinds: frozenset[str]) -> None:
        self._subscribers = subscribers
        self.kinds = kinds
        self._new: deque[WatchEvent] = deque()
        self.push = self._new.append

    def wants(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds

    def take(self) -> list[WatchEvent]:
        events = list(self._new)
        self._new.clear()
        return events

    def close(self) -> None:
        self._subscribers.pop(self, None)
        self._new.clear()


class MemoryStore:
    """A Store (muster.store) in the memory of this process."""

    def __init__(self, clock: Clock, objects: Iterable[Object] = ()) -> None:
        self._clock = clock
        self._objects: dict[str, dict[str, Object]] = {}
        self._version = 0
        self._subscribers: dict[MemoryWatch, None] = {}
        self._history: deque[WatchEvent] = deque(maxlen=HISTORY_EVENTS)
        self._uid_counts: dict[tuple[str, str], int] = {}  # how often an object of this name has been deleted
        self._applied: dict[tuple[str, str, str], Mapping[str, Any]] = {}  # what each field manager applied last
        self.events: deque[Event] = deque()
        for obj in sorted(objects, key=lambda o: (type(o).__name__, key_of(o))):
            self._add(obj)

    # --- reading

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def version(self) -> int:
        """The resourceVersion of the last write."""
        return self._version

    def of(self, kind: type[T]) -> Mapping[str, T]:
        """Returns the live table of a kind by key, for the embedded cluster; do not keep it while writing."""
        return cast("Mapping[str, T]", self._objects.setdefault(kind.__name__, {}))

    def everything(self) -> Mapping[str, Mapping[str, Object]]:
        """Returns all tables by kind; do not keep them while writing."""
        return self._objects

    def get(self, kind: type[T], key: str) -> T:
        found = self.of(kind).get(key)
        if found is None:
            raise NotFound.of(kind.__name__, key)
        return found

    def whole(self, kind: type[Object], key: str) -> dict[str, Any]:
        found = self.get(kind, key)
        value, path = plain(found), template_path(kind)
        templates = templates_of(found)
        if any(template.written is not None for template in templates):
            for template, place in zip(templates, _parents(path, value), strict=True):
                if template.written is not None:
                    place[path[-1]] = {**template.written, "metadata": msgspec.to_builtins(template.metadata)}
        return value

    def known(self, kind: type[Object], key: str) -> bool:
        """Returns whether there is, or ever was, an object of this name."""
        return key in self.of(kind) or (kind.__name__, key) in self._uid_counts

    def list(self, kind: type[T], namespace: str = "") -> Listing[T]:
        table = self.of(kind)
        keys = sorted(table) if not namespace else sorted(k for k in table if k.startswith(f"{namespace}/"))
        return Listing([table[key] for key in keys], str(self._version))

    def watch(self, since: str, kinds: Sequence[type[Object]] = ()) -> MemoryWatch:
        start = int(since) if since else self._version
        # Everything after `start` must still be there: as many events as versions have passed.
        before = len(self._history) - (self._version - start)
        if before < 0:
            raise Gone.since(since)
        watch = MemoryWatch(self._subscribers, frozenset(kind.__name__ for kind in kinds))
        for event in islice(self._history, before, None):
            if watch.wants(event.kind):
                watch.push(event)
        self._subscribers[watch] = None
        return watch

    # --- writing, as any client does

    def create(self, obj: T) -> T:
        kind, key = type(obj).__name__, key_of(obj)
        if key in self._objects.get(kind, ()):
            raise AlreadyExists.of(kind, key)
        if obj.metadata.creation_timestamp is None:
            obj = replace(obj, metadata=replace(obj.metadata, creation_timestamp=timestamp(self._clock.now())))
        return self._add(obj)

    def update(self, obj: T) -> T:
        old = self._expected(obj)
        meta = replace(obj.metadata, **_kept(old))
        new = replace(obj, metadata=meta)
        if hasattr(old, "status"):
            new = replace(new, status=old.status)
        if new == old:
            return old
        if getattr(new, "spec", None) != getattr(old, "spec", None):
            new.metadata.generation = old.metadata.generation + 1
        return self.write(new)

    def update_status(self, obj: T) -> T:
        old = self._expected(obj)
        new: T = replace(old, status=getattr(obj, "status", None)) if hasattr(old, "status") else old
        return old if new == old else self.write(new)

    def patch(self, kind: type[T], key: str, merge: Mapping[str, Any], *, status: bool = False) -> T:
        old = self.get(kind, key)
        changed = decode_as(kind, merged(plain(old), merge))
        if "spec" not in merge and hasattr(old, "spec"):
            changed = replace(changed, spec=old.spec)  # the same one: it may know how it was written
        return self.update_status(changed) if status else self.update(changed)

    def apply(self, kind: type[T], key: str, fields: Mapping[str, Any], *, manager: str) -> T:
        """Lists are taken as a whole. A field that has another value by now belongs to whoever gave it that."""
        at = (kind.__name__, key, manager)
        merge = merged(_taken_back(self._applied.get(at, {}), fields, plain(self.get(kind, key))), fields)
        self._applied[at] = fields
        return self.patch(kind, key, merge)

    def delete(self, kind: type[Object], key: str, *, grace: int | None = None, uid: str = "") -> None:
        old = self.get(kind, key)
        _same_uid(old, key, uid)
        if isinstance(old, Pod):
            self._end(old, key, grace)
        else:
            self.remove(kind, key)

    def bind(self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str = "") -> Pod:
        pod = self.get(Pod, key)
        _same_uid(pod, key, uid)
        if pod.spec.node_name:
            raise Conflict.of("Pod", key, f"is bound to node {pod.spec.node_name} already")
        if is_terminating(pod):
            raise Conflict.of("Pod", key, "is being deleted")
        return self.write(pods.bound(pod, node, annotations, self._clock.now()))

    def set_images(self, key: str, images: Mapping[str, str], *, uid: str = "") -> Pod:
        pod = self.get(Pod, key)
        _same_uid(pod, key, uid)
        new = pods.with_images(pod, images)
        return pod if new == pod else self.write(new)

    def evict(self, key: str, *, by: str, rule: str, grace: int | None = None, uid: str = "") -> None:
        pod = self.get(Pod, key)
        _same_uid(pod, key, uid)
        if not is_terminating(pod):
            self._end(pods.evicted(pod, by, rule, self._clock.now()), key, grace)

    def event(self, obj: Object, severity: Severity, reason: EventReason, message: str) -> None:
        self.events.append(Event(type(obj).__name__, key_of(obj), severity, reason, message, self._clock.now()))

    # --- writing, for the parts of the embedded cluster

    def write(self, obj: T) -> T:
        """Replaces the stored object, which must exist, without comparing versions."""
        kind, key = type(obj).__name__, key_of(obj)
        self._version += 1
        version = str(self._version)
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=version))
        self._objects[kind][key] = obj
        self._notify(WatchEvent(Change.MODIFIED, kind, key, obj, version))
        return obj

    def remove(self, kind: type[Object], key: str) -> None:
        """Removes the object at once."""
        name = kind.__name__
        old = self._objects[name].pop(key)
        self._uid_counts[name, key] = self._uid_counts.get((name, key), 0) + 1
        self._version += 1
        version = str(self._version)
        last = replace(old, metadata=replace(old.metadata, resource_version=version))
        self._notify(WatchEvent(Change.DELETED, name, key, last, version))

    def forget(self, kind: type[Object], key: str) -> None:
        """Removes the object at once, if there is one. Nothing remembers it, so its name must not be used again."""
        if key in self.of(kind):
            self.remove(kind, key)
        self._uid_counts.pop((kind.__name__, key), None)

    def _add(self, obj: T) -> T:
        kind, key = type(obj).__name__, key_of(obj)
        self._version += 1
        version = str(self._version)
        meta = obj.metadata
        namespace = meta.namespace or ("default" if obj.namespaced else "")
        uid = meta.uid or self._uid(kind, key)
        obj = replace(obj, metadata=replace(meta, resource_version=version, uid=uid, namespace=namespace))
        self._objects.setdefault(kind, {})[key] = obj
        self._notify(WatchEvent(Change.ADDED, kind, key, obj, version))
        return obj

    def _uid(self, kind: str, key: str) -> str:
        """Returns a UID made from `ns/name`; an object that is created again under its old name gets another one."""
        count = self._uid_counts.get((kind, key), 0)
        return f"{key}.{count + 1}" if count else key

    def _end(self, pod: Pod, key: str, grace: int | None) -> None:
        if grace is None:
            own = pod.spec.termination_grace_period_seconds
            grace = pods.DEFAULT_GRACE_S if own is None else max(own, 0)
        if grace == 0 or not pod.spec.node_name or is_finished(pod):
            # Kubernetes: nobody has to end a pod that never started or has ended.
            self.remove(Pod, key)
            return
        left = pod.metadata.deletion_grace_period_seconds
        if not is_terminating(pod) or (left is not None and grace < left):
            self.write(pods.terminating(pod, self._clock.now(), grace))

    def _expected(self, obj: T) -> T:
        key = key_of(obj)
        old = self.get(type(obj), key)
        version = obj.metadata.resource_version
        if version and version != old.metadata.resource_version:
            raise Conflict.of(
                type(obj).__name__, key, f"resourceVersion is {old.metadata.resource_version} by now, not {version}"
            )
        _same_uid(old, key, obj.metadata.uid)
        return old

    def _notify(self, event: WatchEvent) -> None:
        self._history.append(event)
        for watch in self._subscribers:
            if not watch.kinds or event.kind in watch.kinds:
                watch.push(event)


def _same_uid(obj: Object, key: str, uid: str) -> None:
    if uid and uid != obj.metadata.uid:
        raise Conflict.of(type(obj).__name__, key, f"is another object: its uid is {obj.metadata.uid}, not {uid}")


def _parents(path: Sequence[str], value: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the mappings that have the pod templates at the path; missing ones are added."""
    found: list[Any] = [value]
    for step in path[:-1]:
        if step == "*":
            found = [item for items in found for item in items]
        else:
            found = [place.setdefault(step, {}) for place in found]
    return found


def _taken_back(before: Mapping[str, Any], now: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that were applied before and are missing now, as nulls of a merge patch."""
    found: dict[str, Any] = {}
    for name, value in before.items():
        # Kubernetes: a node selector is one field.
        if isinstance(value, Mapping) and "nodeSelectorTerms" not in value:
            below = _taken_back(value, now.get(name) or {}, live.get(name) or {})
            found |= {name: below} if below else {}
        elif name not in now and live.get(name) == value:
            found[name] = None
    return found


def _kept(old: Object) -> dict[str, Any]:
    """Returns the metadata that a client cannot change."""
    meta = old.metadata
    kept = ("uid", "creation_timestamp", "deletion_timestamp", "deletion_grace_period_seconds", "generation")
    return {name: getattr(meta, name) for name in (*kept, "namespace", "resource_version")}
