"""A list with the moment it was taken at, and the events from there on."""

from __future__ import annotations

from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from muster.model.meta import Object

T = TypeVar("T", bound=Object)


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
