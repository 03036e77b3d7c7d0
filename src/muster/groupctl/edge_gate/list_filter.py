"""Filters a list of pods item by item while it streams; the list is never held in memory as a whole.

Items are cut by what stands between two of them: `},` and the beginning that the first one had. That may also stand
inside an item, so a piece counts only once it is a JSON value of its own; no true beginning of an object is one.
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
"""The pod as far as it is told, and all of it as JSON; None: more than its metadata may not be told."""

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
    """The pod of an item, as far as it is told."""
    return item if item.cells is None else item.object


class ListFilter:
    """Removes held pods from the body of a list response; call `feed` with each piece, then `finish`."""

    def __init__(self, keep: Keep, opened: Callable[[str], None], *, bare: bool = False) -> None:
        """`opened` is told the list's resourceVersion before any item is judged; `bare`: rows lose their object."""
        self._keep = keep
        self._opened = opened
        self._bare = bare
        self._held = b""
        self._inside = self._over = False
        self._whole = False  # items are whole pods
        self._between: re.Pattern[bytes] | None = None  # how one item ends and the next begins
        self._from = 0  # where in what is held to look on
        self._any = False

    async def feed(self, data: bytes) -> bytes:
        self._held += data
        out: list[bytes] = []
        if self._over:
            out.append(self._taken(len(self._held)))
        elif self._inside or self._enter(out):
            await self._items(out)
        return b"".join(out)

    async def finish(self) -> bytes:
        """What is left: the last item and the end; TruncatedList if there is none."""
        out: list[bytes] = []
        if self._inside and not self._over:
            end = 0
            if not self._held.lstrip().startswith(b"]"):
                end = await self._last(out)
            out.append(self._held[end:])
        else:
            out.append(self._held)
        return b"".join(out)

    def _enter(self, out: list[bytes]) -> bool:
        opening = _OPEN.search(self._held)
        if opening is None:
            if len(self._held) > MAX_LIST_HEAD_BYTES:
                raise TruncatedList("no list begins in the answer")
            return False
        self._whole = _kind_of(self._held[: opening.start()]) == "PodList"
        version = _VERSION.search(self._held, 0, opening.end())
        self._opened(version[1].decode() if version else "")
        self._over = opening[1] == b"null"
        out.append(self._taken(opening.end()))
        self._inside = True
        return True

    async def _items(self, out: list[bytes]) -> None:
        if self._between is None:
            first = _FIRST.match(self._held)
            if first is None:
                return
            self._between = re.compile(rb'\}(\s*,\s*)\{\s*"' + re.escape(first[1]) + rb'"\s*:')
        begin = 0
        while (found := self._between.search(self._held, self._from)) is not None:
            text = self._held[begin : found.start() + 1]
            item = _decoded(text)
            self._from = found.start() + 1
            if item is not None:
                await self._pass(item, text, out)
                begin = self._from = found.end(1)
        # What stands between may have come in part: from the last brace on it is looked for again.
        self._from = max(self._from, self._held.rfind(b"}")) - begin
        self._taken(begin)

    async def _last(self, out: list[bytes]) -> int:
        at = -1
        while (at := self._held.find(b"}", at + 1)) >= 0:
            if not self._held[at + 1 :].lstrip().startswith(b"]"):
                continue
            item = _decoded(self._held[: at + 1])
            if item is not None:
                await self._pass(item, self._held[: at + 1], out)
                return at + 1
        raise TruncatedList("the list ends in the middle of an item")

    async def _pass(self, item: Item, text: bytes, out: list[bytes]) -> None:
        found = pod_in(item)
        whole = text if self._whole and item.kind != "PartialObjectMetadata" else None
        if found is not None and not await self._keep(found, whole):
            return
        if self._bare:
            row = msgspec.json.decode(text)
            row["object"] = None
            text = msgspec.json.encode(row)
        out.append(b"," + text if self._any else text)
        self._any = True

    def _taken(self, size: int) -> bytes:
        taken, self._held = self._held[:size], self._held[size:]
        return taken


def _kind_of(text: bytes) -> str:
    """What stands before the items must be the beginning of a list: a pod may have a field `items`, too."""
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
        pass  # a field that the model has otherwise, or a null: its metadata is what matters
    except msgspec.DecodeError:
        return None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    told = value.get("object") or {} if "cells" in value else value
    pod = metadata_of(told)
    return Item(metadata=pod.metadata, kind=pod.kind)


def metadata_of(value: dict[str, Any]) -> Pod:
    """Returns a pod with only the metadata of the value."""
    try:
        pod = decode_as(Pod, {"metadata": value.get("metadata") or {}})
    except Problem:
        pod = Pod()
    pod.kind = "PartialObjectMetadata"
    return pod
