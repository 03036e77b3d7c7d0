"""Lists and watches one resource of the API server."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from muster.kube.client import Client
from muster.kube.resources import Resource
from muster.model.collector import collector_paused
from muster.model.kinds import decode_json
from muster.model.meta import Object, Partial, kind_name
from muster.model.shape import Problem
from muster.store import Change, errors

PAGE_SIZE = 1000
# A list that expires before its last page is started again; the last attempt requests it in one page.
MAX_RESTARTS = 3
# client-go requests watches of this length, so that not all of them are renewed at once.
MIN_WATCH_S, MAX_WATCH_S = 240, 480
# Bookmarks arrive about every minute; a connection that is silent for longer is dead.
SILENCE_TIMEOUT_S = 180.0
MAX_EVENT_BYTES = 16 * 2**20

_CHANGES = {change.value: change for change in Change}

Report = Callable[[str], None]
"""Receives messages about problems that do not stop the caller."""


class Selection(Struct, frozen=True):
    """Selects objects of a resource: all, or those of a namespace, with labels, with fields."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(namespace=self.namespace)

    def params(self) -> dict[str, str]:
        wanted = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in wanted.items() if value}


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawPage(Struct, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Page(Struct):
    """Some objects of a list, and the resourceVersion of the whole list."""

    objects: list[Object]
    resource_version: str
    more: str


async def pages(client: Client, selection: Selection, report: Report, *, size: int = PAGE_SIZE) -> AsyncIterator[Page]:
    """Lists in pages of one resourceVersion. Raises Gone in between if that version has expired."""
    params = selection.params()
    if size:
        params["limit"] = str(size)
    while True:
        body = await client.request("GET", selection.path, params=params)
        with collector_paused():
            page = decode_page(selection.resource, body, report)
        yield page
        if not page.more:
            return
        params["continue"] = page.more


async def list_all(
    client: Client, selection: Selection, report: Report, *, size: int = PAGE_SIZE
) -> tuple[list[Object], str]:
    """Returns all objects and their resourceVersion; starts again if the list expires."""
    for attempt in range(MAX_RESTARTS + 1):
        objects: list[Object] = []
        version = ""
        try:
            async for page in pages(client, selection, report, size=size if attempt < MAX_RESTARTS else 0):
                objects.extend(page.objects)
                version = page.resource_version
            return objects, version
        except errors.Gone:
            if attempt == MAX_RESTARTS:
                raise
    raise AssertionError("a list ends in an answer or in an error")


def decode_page(resource: Resource, body: bytes, report: Report) -> Page:
    """Decodes a page of a list. An object that cannot be decoded is left out and reported."""
    try:
        typed = _page_decoder(resource.kind).decode(body)
        objects, meta = typed.items or [], typed.metadata
    except msgspec.ValidationError:
        raw = _decoded(resource, body)
        objects, meta = [], raw.metadata
        for item in raw.items or []:
            found = decode_object(resource, bytes(item), report)
            if found is not None:
                objects.append(found)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.BadAnswer(f"GET {resource.path()}", f"not JSON: {error}", code=502) from None
    for obj in objects:
        _set_type(resource, obj)
    return Page(objects, meta.resource_version, meta.continue_)


def decode_object(resource: Resource, text: bytes, report: Report) -> Object | None:
    """Decodes one object; None, with a report, if it cannot be decoded."""
    try:
        obj = decode_json(resource.kind, text)
    except Problem as problem:
        report(f"{resource.name}: {_name_in(text)} is left out: {problem}")
        return None
    _set_type(resource, obj)
    return obj


def _set_type(resource: Resource, obj: Object) -> None:
    """Sets apiVersion and kind, which items of a list lack."""
    if obj.api_version != resource.api_version:
        obj.api_version = resource.api_version
    if not obj.kind:
        obj.kind = kind_name(resource.kind)


@lru_cache(maxsize=64)
def _page_decoder(kind: type[Object]) -> msgspec.json.Decoder[Any]:
    items = list[kind] | None  # type: ignore[valid-type]
    page = msgspec.defstruct(f"{kind.__name__}Page", [("metadata", _ListMeta), ("items", items, None)], gc=False)
    return msgspec.json.Decoder(page)


_raw_decoder = msgspec.json.Decoder(_RawPage)


def _decoded(resource: Resource, body: bytes) -> _RawPage:
    try:
        return _raw_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise errors.BadAnswer(f"GET {resource.path()}", f"no list: {error}", code=502) from None


def _name_in(text: bytes) -> str:
    try:
        meta = msgspec.json.decode(text)["metadata"]
        return "/".join(str(meta[part]) for part in ("namespace", "name") if part in meta)
    except (msgspec.DecodeError, KeyError, TypeError):
        return "an object without a name"


class Step(Struct):
    """One line of a watch: a change, or (change None) a bookmark that only advances the resourceVersion.

    The object of a change is None if it cannot be decoded; it then counts as absent.
    """

    change: Change | None
    resource_version: str
    namespace: str
    name: str
    object: Object | None = None


class _Line(Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Meta(Partial, kw_only=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(Partial, kw_only=True):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


@lru_cache(maxsize=64)
def _event_decoder(kind: type[Object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(msgspec.defstruct(f"{kind.__name__}Event", [("type", str), ("object", kind)], gc=False))


_line = msgspec.json.Decoder(_Line)
_named = msgspec.json.Decoder(_Named)
_status = msgspec.json.Decoder(errors.ApiStatus)


async def watch(
    client: Client, selection: Selection, since: str, report: Report, *, silence: float = SILENCE_TIMEOUT_S
) -> AsyncGenerator[list[Step], None]:
    """Yields the changes after `since` in batches as they arrive, until the server ends the watch.

    The first batch is empty: the server has accepted the watch.

    Raises Gone if `since` is too old: the caller then lists again and compares. After any other error, and after the
    end, the caller watches again from the last resourceVersion seen.
    """
    params = {
        **selection.params(),
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": since,
        "timeoutSeconds": str(random.randint(MIN_WATCH_S, MAX_WATCH_S)),
    }
    async with client.stream(selection.path, params=params, silence=silence) as parts:
        yield []  # the watch is established
        async for lines in _lines(parts, f"WATCH {selection.path}"):
            steps: list[Step] = []
            failure: errors.ApiError | None = None
            for line in lines:
                try:
                    steps.append(_step(selection, line, report))
                except errors.ApiError as error:
                    failure = error
                    break
            # The changes before an invalid line are valid.
            if steps:
                yield steps
            if failure is not None:
                raise failure


async def _lines(parts: AsyncIterator[bytes], what: str) -> AsyncIterator[list[bytes]]:
    rest: list[bytes] = []
    size = 0
    async for part in parts:
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield [line for line in b"".join([*rest, head]).split(b"\n") if line.strip()]
            rest, size = [], 0
        rest.append(tail)
        size += len(tail)
        if size > MAX_EVENT_BYTES:
            raise errors.TooLarge(what, f"an event has more than {MAX_EVENT_BYTES} bytes")


def _step(selection: Selection, line: bytes, report: Report) -> Step:
    resource = selection.resource
    try:
        typed = _event_decoder(resource.kind).decode(line)
        change = _CHANGES.get(typed.type)
    except (msgspec.DecodeError, RecursionError):
        change = None
    if change is None:
        return _unusual_step(selection, line, report)
    obj: Object = typed.object
    _set_type(resource, obj)
    meta = obj.metadata
    return Step(change, meta.resource_version, meta.namespace, meta.name, obj)


def _unusual_step(selection: Selection, line: bytes, report: Report) -> Step:
    """Decodes a bookmark, an error, or an object that has nulls or is invalid."""
    what = f"WATCH {selection.path}"
    try:
        event = _line.decode(line)
        text = bytes(event.object)
        if event.type == "ERROR":
            raise errors.from_status(what, _status.decode(text))
        change = _CHANGES.get(event.type)
        if change is not None:
            obj = decode_object(selection.resource, text, report)
            if obj is not None:
                meta = obj.metadata
                return Step(change, meta.resource_version, meta.namespace, meta.name, obj)
        named = _named.decode(text).metadata
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.BadAnswer(what, f"an event that is not JSON: {error}") from None
    if change is None and event.type != "BOOKMARK":
        raise errors.BadAnswer(what, f"an event of an unknown type {event.type!r}")
    return Step(change, named.resource_version, named.namespace, named.name)
