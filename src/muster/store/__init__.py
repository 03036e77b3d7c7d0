"""The `Store` protocol: objects, lists, watches, events and a clock. `errors` has its errors.

The controllers, the extender and the simulator work on a Store. There are two implementations: `cluster.memory` in
memory and `kube.store` on a live cluster. The live scheduler has its own cache and shares the errors. Objects that come
out of a store are never changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from muster.model.core import Pod
from muster.model.meta import Object
from muster.store.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound
from muster.store.event_reasons import EventReason

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Change",
    "Clock",
    "Conflict",
    "Event",
    "Gone",
    "Listing",
    "NotFound",
    "Severity",
    "Store",
    "Watch",
    "WatchEvent",
]

T = TypeVar("T", bound=Object)


class Clock(Protocol):
    """The current time: a real clock, or the virtual clock of the embedded cluster."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class Store(Protocol):
    """Reads and writes objects by kind and key (`namespace/name`, or the name alone where there are no namespaces)."""

    @property
    def clock(self) -> Clock:
        """The time this store lives in."""
        ...

    def get(self, kind: type[T], key: str) -> T:
        """The object; NotFound if there is none."""
        ...

    def whole(self, kind: type[Object], key: str) -> dict[str, Any]:
        """The object as a plain value, with the fields that the model has not; NotFound. Not for every day."""
        ...

    def list(self, kind: type[T], namespace: str = "") -> Listing[T]:
        """All objects of the kind, in the order of their keys, with the resourceVersion to watch from."""
        ...

    def watch(self, since: str, kinds: Sequence[type[Object]] = ()) -> Watch:
        """Changes after that resourceVersion, of these kinds or (none given) of all. Gone if it is too long ago."""
        ...

    def create(self, obj: T) -> T:
        """Makes the object and returns it as it is stored; AlreadyExists."""
        ...

    def update(self, obj: T) -> T:
        """Writes everything but status. Conflict if obj carries a resourceVersion or uid that is not the stored one."""
        ...

    def update_status(self, obj: T) -> T:
        """Writes status only; conflicts as in update."""
        ...

    def patch(self, kind: type[T], key: str, merge: Mapping[str, Any], *, status: bool = False) -> T:
        """Merges a plain value (RFC 7386: null removes) into everything but status, or into status only."""
        ...

    def apply(self, kind: type[T], key: str, fields: Mapping[str, Any], *, manager: str) -> T:
        """Server-side apply: sets the fields, and removes those that the manager applied before and leaves out now."""
        ...

    def delete(self, kind: type[Object], key: str, *, grace: int | None = None, uid: str = "") -> None:
        """Deletes the object; a pod on a node is only marked, and goes when its grace (seconds) is over."""
        ...

    def bind(self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str = "") -> Pod:
        """Gives the pod its node and the annotations with it. Conflict if it has a node or is being deleted."""
        ...

    def set_images(self, key: str, images: Mapping[str, str], *, uid: str = "") -> Pod:
        """Sets other images of containers and init containers of a pod, by their names; each of them is restarted."""
        ...

    def evict(self, key: str, *, by: str, rule: str, grace: int | None = None, uid: str = "") -> None:
        """Evicts the pod, and writes on it for whom (`by`) and by which rule."""
        ...

    def event(self, obj: Object, severity: Severity, reason: EventReason, message: str) -> None:
        """Records an Event about the object."""
        ...


class Change(Enum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class WatchEvent(Struct, frozen=True, gc=False):
    """One change. A deleted object comes as it last was, with the resourceVersion of its deletion."""

    change: Change
    kind: str
    key: str
    object: Object
    resource_version: str


class Listing(Struct, Generic[T], frozen=True):
    """All objects of a kind as they were at one resourceVersion; a watch since that version goes on from here."""

    items: list[T]
    resource_version: str


class Watch(Protocol):
    """Changes as they come."""

    def take(self) -> list[WatchEvent]:
        """What has happened since the last time, in order; empty if nothing has."""
        ...

    def close(self) -> None:
        """No more events are wanted."""
        ...


class Severity(Enum):
    """The two types of Event that Kubernetes knows."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Event(Struct, frozen=True, gc=False):
    """One Event: about which object, when, a reason in one word and a message for people."""

    kind: str
    key: str
    severity: Severity
    reason: str
    message: str
    time: float
