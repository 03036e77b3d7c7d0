"""What a component has to say about an object: Kubernetes' Event, under a name of its own beside WatchEvent."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


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
