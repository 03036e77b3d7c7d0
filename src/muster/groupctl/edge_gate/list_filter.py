"""Filters a list of pods item by item while it streams; the list is never held in memory as a whole.

Items are split at the separator between two of them: `},` and the start that the first item had. The same text may
occur inside an item, so a part counts only if it is a complete JSON value; a proper prefix of an object never is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from muster.model.core import Pod
from muster.model.kinds import decode_as
from muster.model.shape import Problem

Keep = Callable[[Pod, bytes | None], Awaitable[bool]]
"""Takes the decoded pod and all of it as JSON (None if only its metadata may be used); returns whether to keep it."""

_OPEN = re.compile(rb'"(?:items|rows)":\s*(\[|null)')
_FIRST = re.compile(rb'\s*\{\s*"([^"\\]*)"\s*:')
_VERSION = re.compile(rb'"resourceVersion":\s*"(\d+)"')
MAX_LIST_HEAD_BYTES = 1 << 20


class TruncatedList(Exception):
    """The list ended too early."""


class Item(Pod, kw_only=True):
    """An item of a list: a pod, a pod's metadata, or a row."""

    cells: list[Any] | None = None
    object: Pod | None = None


class _Opening(msgspec.Struct):
    kind: str = ""


_item = msgspec.json.Decoder(Item)


def pod_in(item: Item) -> Pod | None:
    """Returns the pod of an item; a row may have only its metadata or none."""
    return item if item.cells is None else item.object


class ListFilter:
    """Removes held pods from the body of a list response; call `feed` with each piece, then `finish`."""

    def __init__(self, keep: Keep, on_version: Callable[[str], None], *, strip_objects: bool = False) -> None:
        """`on_version` gets the list's resourceVersion before any item is filtered; `strip_objects`: rows lose their
        objects."""
        self._keep = keep
        self._on_version = on_version
        self._strip_objects = strip_objects
        self._buffer = b""
        self._inside = self._ended = False
        self._has_whole_pods = False  # items are whole pods
        self._separator: re.Pattern[bytes] | None = None  # how one item ends and the next begins
        self._search_from = 0  # where in the buffer to continue the search
        self._wrote_item = False

    async def feed(self, data: bytes) -> bytes:
        self._buffer += data
        out: list[bytes] = []
        if self._ended:
            out.append(self._take(len(self._buffer)))
        elif self._inside or self._enter(out):
            await self._items(out)
        return b"".join(out)

    async def finish(self) -> bytes:
        """Returns the last item and the end of the list; raises TruncatedList if the end is missing."""
        out: list[bytes] = []
        if self._inside and not self._ended:
            end = 0
            if not self._buffer.lstrip().startswith(b"]"):
                end = await self._last(out)
            out.append(self._buffer[end:])
        else:
            out.append(self._buffer)
        return b"".join(out)

    def _enter(self, out: list[bytes]) -> bool:
        opening = _OPEN.search(self._buffer)
        if opening is None:
            if len(self._buffer) > MAX_LIST_HEAD_BYTES:
                raise TruncatedList("no list begins in the answer")
            return False
        self._has_whole_pods = _kind_of(self._buffer[: opening.start()]) == "PodList"
        version = _VERSION.search(self._buffer, 0, opening.end())
        self._on_version(version[1].decode() if version else "")
        self._ended = opening[1] == b"null"
        out.append(self._take(opening.end()))
        self._inside = True
        return True

    async def _items(self, out: list[bytes]) -> None:
        if self._separator is None:
            first = _FIRST.match(self._buffer)
            if first is None:
                return
            self._separator = re.compile(rb'\}(\s*,\s*)\{\s*"' + re.escape(first[1]) + rb'"\s*:')
        begin = 0
        while (found := self._separator.search(self._buffer, self._search_from)) is not None:
            text = self._buffer[begin : found.start() + 1]
            item = _decoded(text)
            self._search_from = found.start() + 1
            if item is not None:
                await self._append_if_kept(item, text, out)
                begin = self._search_from = found.end(1)
        # A separator may have arrived in part: search again from the last brace on.
        self._search_from = max(self._search_from, self._buffer.rfind(b"}")) - begin
        self._take(begin)

    async def _last(self, out: list[bytes]) -> int:
        at = -1
        while (at := self._buffer.find(b"}", at + 1)) >= 0:
            if not self._buffer[at + 1 :].lstrip().startswith(b"]"):
                continue
            item = _decoded(self._buffer[: at + 1])
            if item is not None:
                await self._append_if_kept(item, self._buffer[: at + 1], out)
                return at + 1
        raise TruncatedList("the list ends in the middle of an item")

    async def _append_if_kept(self, item: Item, text: bytes, out: list[bytes]) -> None:
        found = pod_in(item)
        whole = text if self._has_whole_pods and item.kind != "PartialObjectMetadata" else None
        if found is not None and not await self._keep(found, whole):
            return
        if self._strip_objects:
            row = msgspec.json.decode(text)
            row["object"] = None
            text = msgspec.json.encode(row)
        out.append(b"," + text if self._wrote_item else text)
        self._wrote_item = True

    def _take(self, size: int) -> bytes:
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def _kind_of(text: bytes) -> str:
    """Returns the kind of the list from the text before its items; a pod may have a field `items` as well."""
    try:
        kind = msgspec.json.decode(text.rstrip().removesuffix(b",") + b"}", type=_Opening).kind
    except msgspec.DecodeError:
        kind = ""
    if kind not in ("PodList", "PartialObjectMetadataList", "Table"):
        raise TruncatedList("the answer is not a list of pods")
    return kind


def _decoded(text: bytes) -> Item | None:
    """Decodes an item; None if the text is not a complete one."""
    try:
        return _item.decode(text)
    except msgspec.ValidationError:
        pass  # a field of another type than in the model, or a null: the metadata is enough
    except msgspec.DecodeError:
        return None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    value = value.get("object") or {} if "cells" in value else value
    pod = metadata_of(value)
    return Item(metadata=pod.metadata, kind=pod.kind)


def metadata_of(value: dict[str, Any]) -> Pod:
    """Returns a pod with only the metadata of the value."""
    try:
        pod = decode_as(Pod, {"metadata": value.get("metadata") or {}})
    except Problem:
        pod = Pod()
    pod.kind = "PartialObjectMetadata"
    return pod
