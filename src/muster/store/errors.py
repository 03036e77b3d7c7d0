"""What a store answers instead of an object."""

from __future__ import annotations


class StoreError(Exception):
    """The store did not do it; the text says what and why."""


class NotFound(StoreError):
    """There is no such object."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"{kind} {key} does not exist")


class AlreadyExists(StoreError):
    """There is such an object already."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"{kind} {key} exists already")


class Conflict(StoreError):
    """The object is not what the caller took it for: read it again and decide anew."""

    def __init__(self, kind: str, key: str, why: str) -> None:
        super().__init__(f"{kind} {key}: {why}")


class Gone(StoreError):
    """A watch from so far back cannot be had any more: list again."""

    def __init__(self, since: str) -> None:
        super().__init__(f"events since resourceVersion {since} are no longer kept; list again")


class Refused(StoreError):
    """The API server does not permit the change, or the object would not be valid."""
