"""The Store that controllers see, on a live cluster: reads from the informers' tables, writes through the API server.

Controllers are plain functions that wait for their writes, so they run in a separate thread; the calls themselves
are made on the event loop. What a write got back is in the tables at once, so a controller reads what it wrote.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar

from muster.kube.events import Recorder
from muster.kube.informer import Delta
from muster.kube.informers import Informers
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.kinds import CUSTOM, plain
from muster.model.merge_patch import difference
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.model.pod_states import eviction_annotations
from muster.store import Conflict, Listing, NotFound, Severity, WatchEvent
from muster.store.event_reasons import EventReason

T = TypeVar("T", bound=Object)
R = TypeVar("R")


class WallClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.time()


class KubeWatch:
    """The changes that a controller has not taken yet; added in the event loop, taken in the controller's thread."""

    def __init__(self, store: KubeStore, kinds: frozenset[str]) -> None:
        self._store = store
        self._kinds = kinds
        self._new: deque[WatchEvent] = deque()
        self._lock = Lock()

    def push(self, delta: Delta) -> None:
        if self._kinds and delta.kind not in self._kinds:
            return
        obj = delta.new if delta.new is not None else delta.old
        assert obj is not None
        event = WatchEvent(delta.change, delta.kind, delta.key, obj, obj.metadata.resource_version)
        with self._lock:
            self._new.append(event)

    def take(self) -> list[WatchEvent]:
        with self._lock:
            events = list(self._new)
            self._new.clear()
        return events

    def close(self) -> None:
        self._store.forget(self)


class KubeStore:
    """A Store (muster.store) over a live cluster. Create it in the event loop; use it in any other thread."""

    def __init__(self, informers: Informers, writes: Writes, recorder: Recorder) -> None:
        self._loop = asyncio.get_running_loop()
        self._informers = informers
        self._writes = writes
        self._recorder = recorder
        self._clock = WallClock()
        self._watches: dict[KubeWatch, None] = {}

    @property
    def clock(self) -> WallClock:
        return self._clock

    # --- reading

    def get(self, kind: type[T], key: str) -> T:
        if not self._informers.follows(kind):
            return self._wait(self._writes.get(kind, key))
        found = self._informers.of(kind).get(key)
        if found is None:
            raise NotFound.of(kind.__name__, key)
        return found

    def whole(self, kind: type[Object], key: str) -> dict[str, Any]:
        return self._wait(self._writes.whole(kind, key))

    def list(self, kind: type[T], namespace: str = "") -> Listing[T]:
        return self._wait(self._list(kind, namespace))

    def watch(self, since: str, kinds: Sequence[type[Object]] = ()) -> KubeWatch:
        """From now on, whatever `since` is: the tables that `list` reads are what the changes start from.

        The objects that are there come first, as ADDED; a level-triggered controller has no use for more.
        """
        watch = KubeWatch(self, frozenset(kind.__name__ for kind in kinds))
        self._wait(self._subscribe(watch))
        return watch

    def forget(self, watch: KubeWatch) -> None:
        self._watches.pop(watch, None)
        self._loop.call_soon_threadsafe(self._informers.unsubscribe, watch.push)

    def close(self) -> None:
        """Ends its watches."""
        for watch in list(self._watches):
            self.forget(watch)

    # --- writing

    def create(self, obj: T) -> T:
        return self._written(self._writes.create(obj))

    def update(self, obj: T) -> T:
        return self._written(self._changed(obj, _but_status, ""))

    def update_status(self, obj: T) -> T:
        return self._written(self._changed(obj, _status_only, "status"))

    def patch(self, kind: type[T], key: str, merge: Mapping[str, Any], *, status: bool = False) -> T:
        return self._written(self._writes.patch(kind, key, merge, sub="status" if status else ""))

    def apply(self, kind: type[T], key: str, fields: Mapping[str, Any], *, manager: str) -> T:
        return self._written(self._writes.apply(kind, key, fields, manager=manager))

    def delete(self, kind: type[Object], key: str, *, grace: int | None = None, uid: str = "") -> None:
        self._wait(self._writes.delete(kind, key, grace=grace, uid=uid))

    def bind(self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str = "") -> Pod:
        self._wait(self._writes.bind(key, node, annotations, uid=uid))
        return self._written(self._writes.get(Pod, key))

    def set_images(self, key: str, images: Mapping[str, str], *, uid: str = "") -> Pod:
        return self._written(self._imaged(key, images, uid))

    def evict(self, key: str, *, by: str, rule: str, grace: int | None = None, uid: str = "") -> None:
        # A dry run first: a pod that a budget protects gets no annotation of an eviction.
        self._wait(self._writes.evict(key, uid=uid, dry_run=True, grace=grace))
        self._written(self._writes.annotate(Pod, key, eviction_annotations(by, rule), uid=uid))
        self._wait(self._writes.evict(key, uid=uid, grace=grace))

    def event(self, obj: Object, severity: Severity, reason: EventReason, message: str) -> None:
        self._loop.call_soon_threadsafe(self._recorder.record, obj, severity, reason, message)

    # --- across the threads

    def _wait(self, call: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _written(self, call: Coroutine[Any, Any, T]) -> T:
        return self._wait(self._observed(call))

    async def _observed(self, call: Coroutine[Any, Any, T]) -> T:
        obj = await call
        self._informers.observe(obj)
        return obj

    async def _list(self, kind: type[T], namespace: str) -> Listing[T]:
        table = self._informers.of(kind)
        keys = sorted(table) if not namespace else sorted(key for key in table if key.startswith(f"{namespace}/"))
        return Listing([table[key] for key in keys], "")

    async def _imaged(self, key: str, images: Mapping[str, str], uid: str) -> Pod:
        known = self._informers.of(Pod).get(key) if self._informers.follows(Pod) else await self._writes.get(Pod, key)
        if known is None:
            raise NotFound.of("Pod", key)
        found = [
            {c.name: images[c.name] for c in some if images.get(c.name, c.image) != c.image}
            for some in (known.spec.containers, known.spec.init_containers)
        ]
        return known if not any(found) else await self._writes.set_images(key, *found, uid=uid or known.metadata.uid)

    async def _subscribe(self, watch: KubeWatch) -> None:
        self._watches[watch] = None
        self._informers.subscribe(watch.push)

    async def _changed(self, obj: T, part: Callable[[dict[str, Any]], dict[str, Any]], sub: str) -> T:
        """Sends only what differs from the original of `obj`, because the model of most kinds is partial."""
        kind, key = type(obj), key_of(obj)
        old = self._informers.of(kind).get(key) if self._informers.follows(kind) else await self._writes.get(kind, key)
        if old is None:
            raise NotFound.of(kind.__name__, key)
        meta = obj.metadata
        for name, ours, theirs in (
            ("resourceVersion", meta.resource_version, old.metadata.resource_version),
            ("uid", meta.uid, old.metadata.uid),
        ):
            if ours and ours != theirs:
                raise Conflict.of(kind.__name__, key, f"{name} is now {theirs}, not {ours}")
        merge = difference(part(plain(old)), part(plain(obj)), whole=kind in CUSTOM)
        if not merge:
            return old
        merge["metadata"] = {
            **merge.get("metadata", {}),
            "uid": old.metadata.uid,
            "resourceVersion": old.metadata.resource_version,
        }
        return await self._writes.patch(kind, key, merge, sub=sub, api_version=old.api_version)


# What the API server alone writes.
_ITS_OWN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def _but_status(value: dict[str, Any]) -> dict[str, Any]:
    meta = {name: field for name, field in value.get("metadata", {}).items() if name not in _ITS_OWN}
    return {**{name: field for name, field in value.items() if name != "status"}, "metadata": meta}


def _status_only(value: dict[str, Any]) -> dict[str, Any]:
    return {"status": value.get("status", {})}
