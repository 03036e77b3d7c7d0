"""Filters a watch of pods event by event, as if held pods did not exist.

A released pod is sent as ADDED and a pod that is held again as DELETED, whether an event of the pod or a change of its
application is the cause. `held_back` are the pods that the API server would show and this client does not see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from muster.groupctl.edge_gate.change_log import ChangeLog, LogEntry
from muster.groupctl.edge_gate.list_filter import Item, Keep, metadata_of, pod_in
from muster.model.core import Pod
from muster.model.meta import ObjectMeta, Partial

Fetch = Callable[[str], Awaitable[bytes | None]]
"""Takes ns/name; returns the pod in the client's media type as the object of an event, None if the watch does not
include it."""

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"


class _Event(Struct):
    type: str
    object: Raw


class _ListMeta(Partial, kw_only=True):
    resource_version: str = ""


class _Table(Partial, kw_only=True):
    kind: str = ""
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    column_definitions: list[Any] | None = None
    rows: list[Item] | None = None


_event = msgspec.json.Decoder(_Event)
_table = msgspec.json.Decoder(_Table)
_pod = msgspec.json.Decoder(Pod)


class WatchFilter:
    """Filters the events of one watch."""

    def __init__(
        self, keep: Keep, changes: ChangeLog, fetch: Fetch, *, since: str, bookmarks: bool, strip_objects: bool = False
    ) -> None:
        """`since`: the version that the client knows ("" if it gets everything); `strip_objects` removes the objects of
        rows."""
        self.held_back: set[str] = set()
        self.maybe_seen: set[str] = set()  # held pods that the client may have seen
        self.changed: set[str] = set()  # held pods that changed after `since`: the client may know an earlier state
        self.evaluated_epoch = -1  # the epoch at which `held_back` was computed; −1: it starts empty
        self.known_version = -1  # the highest version that the client may have seen in an earlier watch
        self._known: set[str] = set()  # pods whose state at the client is known, because this watch sent an event
        self._keep = keep
        self._changes = changes
        self._fetch = fetch
        self._last_version = since
        self._bookmarks = bookmarks
        self._strip_objects = strip_objects
        self._columns: list[Any] | None = None  # of a Table, until an event has sent them to the client
        self._columns_sent = False
        self._type_meta: dict[str, str] = {"kind": "Pod", "apiVersion": "v1"}

    async def event(self, line: bytes) -> bytes:
        """Returns what the client gets for an event: the same line, another one, or nothing."""
        event = _event.decode(line)
        if event.type not in (ADDED, MODIFIED, DELETED):
            if event.type == BOOKMARK:
                self._record_version(_version(bytes(event.object)))
            return line + b"\n"
        text = bytes(event.object)
        pod, version = self._read(text)
        self._record_version(version)
        if pod is None:
            return line + b"\n"
        key = _key(pod.metadata)
        if event.type == DELETED:
            unseen = key in self.held_back and key not in self.maybe_seen
            self.held_back.discard(key)
            self._settle(key)
            return b"" if unseen else self._event_line(event.type, text)
        if not await self._is_visible(pod, text):
            # The client never saw a new pod that is held, unless it watches again from an earlier version.
            seen = event.type == MODIFIED or number(version) <= self.known_version
            existed = event.type == MODIFIED and key in self.changed
            gone = seen and (key not in self.held_back or key in self.maybe_seen or existed)
            self.held_back.add(key)
            self._settle(key)
            return self._event_line(DELETED, text) if gone else b""
        self._settle(key)
        if key in self.held_back:
            self.held_back.discard(key)
            return self._event_line(ADDED, text)
        return self._event_line(event.type, text)

    async def object(self, text: bytes) -> bytes | None:
        """Returns a single object as the client may see it; None if it is held."""
        pod, _ = self._read(text)
        if pod is not None and not await self._is_visible(pod, text):
            return None
        return self._with_columns(text) if self._strip_objects else text

    async def reevaluate(self, change: LogEntry) -> bytes:
        """Evaluates a pod again because its application changed; returns the event to send or nothing.

        If the change was before `held_back` was computed, it is unknown what the client has seen, and it gets an event
        one event."""
        text = await self._fetch(change.key)
        pod, version = (None, "") if text is None else self._read(text)
        unknown = change.epoch <= self.evaluated_epoch and change.key not in self._known
        if text is None or pod is None:
            if unknown:
                self.maybe_seen.add(change.key)
            return b""  # deleted: if the client has it, the API server's DELETED event will follow
        sent = await self._is_visible(pod, text)
        if not unknown and sent == (change.key not in self.held_back):
            return b""
        if number(version) > number(self._last_version):
            # A later event of this pod will follow. If the client got this version now, it would assume that it has
            # seen everything up to it. The later event is sent as for a pod that was hidden (or visible) until then.
            if not sent:
                self.held_back.discard(change.key)
            elif unknown:
                self.held_back.add(change.key)
                self.maybe_seen.add(change.key)
            return b""
        self._settle(change.key)
        self._known.add(change.key)
        if sent:
            self.held_back.discard(change.key)
            return self._event_line(ADDED, text)
        self.held_back.add(change.key)
        return self._event_line(DELETED, text)

    def bookmark(self) -> bytes:
        """Returns a bookmark with the current version, to follow events without one; nothing if none was requested."""
        if not self._bookmarks or not self._last_version.isdecimal() or self._last_version == "0":
            return b""
        version = {"resourceVersion": self._last_version}
        empty: dict[str, Any] = {**self._type_meta, "metadata": {**version, "creationTimestamp": None}}
        if self._type_meta["kind"] == "Table":
            empty = {**self._type_meta, "metadata": version, "columnDefinitions": None, "rows": []}
        elif self._type_meta["kind"] == "Pod":
            empty |= {"spec": {"containers": None}, "status": {}}
        return _encode_event(BOOKMARK, msgspec.json.encode(empty))

    def _settle(self, key: str) -> None:
        """What the client sees of the pod is known from now on."""
        self.maybe_seen.discard(key)
        self.changed.discard(key)

    async def _is_visible(self, pod: Pod, text: bytes) -> bool:
        return await self._keep(pod, text if self._type_meta["kind"] == "Pod" and pod.kind == "Pod" else None)

    # --- reading and writing

    def _read(self, text: bytes) -> tuple[Pod | None, str]:
        """Returns the pod of an event's object (its kind determines how much of it is known) and the object's version.
        """
        table = _table.decode(text) if b'"rows"' in text else None
        if table is not None and table.kind == "Table":
            self._type_meta = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
            pod = pod_in(table.rows[0]) if table.rows else None
            return pod, table.metadata.resource_version or (pod.metadata.resource_version if pod else "")
        try:
            pod = _pod.decode(text)
        except msgspec.ValidationError:
            pod = metadata_of(msgspec.json.decode(text))
        if pod.kind == "PartialObjectMetadata":
            self._type_meta = {"kind": pod.kind, "apiVersion": "meta.k8s.io/v1"}
        return pod, pod.metadata.resource_version

    def _record_version(self, version: str) -> None:
        if version:
            self._last_version = version
            self._changes.record_sent(version)

    def _event_line(self, type_: str, text: bytes) -> bytes:
        if self._type_meta["kind"] == "Table":
            text = self._with_columns(text)
        return _encode_event(type_, text)

    def _with_columns(self, text: bytes) -> bytes:
        """Sends a Table's columns once, in the first event that is forwarded."""
        if self._columns_sent and not self._strip_objects and b'"columnDefinitions":null' in text:
            return text
        table = msgspec.json.decode(text)
        columns = table.get("columnDefinitions") or self._columns
        table["columnDefinitions"] = None if self._columns_sent else columns
        self._columns_sent = self._columns_sent or bool(columns)
        if self._strip_objects:
            for row in table.get("rows") or ():
                row["object"] = None
        return msgspec.json.encode(table)

    def remember_columns(self, line: bytes) -> None:
        """Keeps the columns of the API server's first event, in case that event is held back."""
        if self._columns is None and b'"columnDefinitions":[' in line:
            self._columns = _table.decode(bytes(_event.decode(line).object)).column_definitions


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"


def _version(text: bytes) -> str:
    return _table.decode(text).metadata.resource_version


def number(version: str) -> int:
    """Returns a resourceVersion as a number; 0 if there is none."""
    return int(version) if version.isdecimal() else 0


def _encode_event(type_: str, text: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + text + b"}\n"
