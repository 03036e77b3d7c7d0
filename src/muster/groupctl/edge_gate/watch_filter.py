"""A watch of pods passed on event by event, as one would see it for whom held pods are not there.

A pod that is released comes as ADDED, one that is held again goes as DELETED, whether an event of the pod or a change
of its application is the cause. `hidden` are the pods that the API server would show and this client does not see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from muster.groupctl.edge_gate.change_log import Change, ChangeLog
from muster.groupctl.edge_gate.list_filter import Item, Keep, metadata_of, pod_in
from muster.model.core import Pod
from muster.model.meta import ObjectMeta, Partial

Fetch = Callable[[str], Awaitable[bytes | None]]
"""ns/name → the pod in the client's form, ready to be an event's object; None if it is not among those asked for."""

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
    def __init__(
        self, keep: Keep, changes: ChangeLog, fetch: Fetch, *, since: str, bookmarks: bool, bare: bool = False
    ) -> None:
        """`since`: the version that the client knows ("": it is told everything); `bare`: rows lose their object."""
        self.hidden: set[str] = set()
        self.unsure: set[str] = set()  # hidden ones that the client may have all the same, until it is told
        self.turn = -1  # the last turn before `hidden` was known; −1: it began with nothing
        self.known = -1  # the latest version that the client may have heard of earlier
        self._keep = keep
        self._changes = changes
        self._fetch = fetch
        self._at = since
        self._bookmarks = bookmarks
        self._bare = bare
        self._columns: list[Any] | None = None  # a Table's, while no event has carried them to the client
        self._titled = False
        self._form: dict[str, str] = {"kind": "Pod", "apiVersion": "v1"}

    async def event(self, line: bytes) -> bytes:
        """What the client is told of an event: the line itself, another, or nothing."""
        event = _event.decode(line)
        if event.type not in (ADDED, MODIFIED, DELETED):
            if event.type == BOOKMARK:
                self._note(_version(bytes(event.object)))
            return line + b"\n"
        text = bytes(event.object)
        pod, version = self._read(text)
        self._note(version)
        if pod is None:
            return line + b"\n"
        key = _key(pod.metadata)
        if event.type == DELETED:
            dropped = key in self.hidden and key not in self.unsure
            self.hidden.discard(key)
            self.unsure.discard(key)
            return b"" if dropped else self._line(event.type, text)
        if not await self._sent(pod, text):
            # A new pod that is held was never seen, unless the client begins anew from before what it has seen.
            seen = event.type == MODIFIED or _number(version) <= self.known
            gone = seen and (key not in self.hidden or key in self.unsure)
            self.hidden.add(key)
            self.unsure.discard(key)
            return self._line(DELETED, text) if gone else b""
        self.unsure.discard(key)
        if key in self.hidden:
            self.hidden.discard(key)
            return self._line(ADDED, text)
        return self._line(event.type, text)

    async def object(self, text: bytes) -> bytes | None:
        """A single object as the client may see it; None: it is held."""
        pod, _ = self._read(text)
        if pod is not None and not await self._sent(pod, text):
            return None
        return self._with_columns(text) if self._bare else text

    async def look_again(self, change: Change) -> bytes:
        """A pod whose application changed. If that was before `hidden` was known, what the client has is not known
        either, and it is told in any case."""
        text = await self._fetch(change.key)
        pod, version = (None, "") if text is None else self._read(text)
        unknown = change.turn <= self.turn
        if text is None or pod is None:
            if unknown:
                self.unsure.add(change.key)
            return b""  # not there: if the client has it, the API server's own DELETED is on its way
        sent = await self._sent(pod, text)
        if not unknown and sent == (change.key not in self.hidden):
            return b""
        if _number(version) > _number(self._at):
            # An event of this pod is on its way, and a client that hears of it now would believe that it has heard
            # everything up to then. That event will tell it, as of a pod that was hidden (or shown) until now.
            if not sent:
                self.hidden.discard(change.key)
            elif unknown:
                self.hidden.add(change.key)
                self.unsure.add(change.key)
            return b""
        self.unsure.discard(change.key)
        if sent:
            self.hidden.discard(change.key)
            return self._line(ADDED, text)
        self.hidden.add(change.key)
        return self._line(DELETED, text)

    def bookmark(self) -> bytes:
        """Where the client stands, after events that have no version of their own; nothing if it asked for none."""
        if not self._bookmarks or not self._at.isdecimal() or self._at == "0":
            return b""
        empty: dict[str, Any] = {**self._form, "metadata": {"resourceVersion": self._at, "creationTimestamp": None}}
        if self._form["kind"] == "Table":
            empty = {**self._form, "metadata": {"resourceVersion": self._at}, "columnDefinitions": None, "rows": []}
        elif self._form["kind"] == "Pod":
            empty |= {"spec": {"containers": None}, "status": {}}
        return _written(BOOKMARK, msgspec.json.encode(empty))

    async def _sent(self, pod: Pod, text: bytes) -> bool:
        return await self._keep(pod, text if self._form["kind"] == "Pod" and pod.kind == "Pod" else None)

    # --- reading and writing

    def _read(self, text: bytes) -> tuple[Pod | None, str]:
        """The pod of an event's object (its kind says how much of it is told) and the object's version."""
        table = _table.decode(text) if b'"rows"' in text else None
        if table is not None and table.kind == "Table":
            self._form = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
            pod = pod_in(table.rows[0]) if table.rows else None
            return pod, table.metadata.resource_version or (pod.metadata.resource_version if pod else "")
        try:
            pod = _pod.decode(text)
        except msgspec.ValidationError:
            pod = metadata_of(msgspec.json.decode(text))
        if pod.kind == "PartialObjectMetadata":
            self._form = {"kind": pod.kind, "apiVersion": "meta.k8s.io/v1"}
        return pod, pod.metadata.resource_version

    def _note(self, version: str) -> None:
        if version:
            self._at = version
            self._changes.hand(version)

    def _line(self, type_: str, text: bytes) -> bytes:
        if self._form["kind"] == "Table":
            text = self._with_columns(text)
        return _written(type_, text)

    def _with_columns(self, text: bytes) -> bytes:
        """A Table's columns are told once, in the first event that is passed on."""
        if self._titled and not self._bare and b'"columnDefinitions":null' in text:
            return text
        table = msgspec.json.decode(text)
        columns = table.get("columnDefinitions") or self._columns
        table["columnDefinitions"] = None if self._titled else columns
        self._titled = self._titled or bool(columns)
        if self._bare:
            for row in table.get("rows") or ():
                row["object"] = None
        return msgspec.json.encode(table)

    def remember_columns(self, line: bytes) -> None:
        """The API server puts the columns into its first event: kept for when that one is held back."""
        if self._columns is None and b'"columnDefinitions":[' in line:
            self._columns = _table.decode(bytes(_event.decode(line).object)).column_definitions


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"


def _version(text: bytes) -> str:
    return _table.decode(text).metadata.resource_version


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


def _written(type_: str, text: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + text + b"}\n"
