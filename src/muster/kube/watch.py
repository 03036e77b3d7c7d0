"""A watch: lines of JSON as they come, cut into events; it always ends, and is then taken up where it ended."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec
from msgspec import Struct

from muster.kube.client import Client
from muster.kube.lists import Report, Selection, decode_object
from muster.model.meta import Object, Partial
from muster.store import Change, errors

# Kubernetes' clients ask for watches of this length, so that not all of them are made anew at once.
SHORTEST, LONGEST = 240, 480
# Bookmarks come about every minute; a connection that says nothing for so long is dead.
SILENCE = 180.0
LONGEST_LINE = 16 * 2**20

_CHANGES = {change.value: change for change in Change}


class Step(Struct):
    """One line of a watch: a change, or (no change) a bookmark that only carries the resourceVersion on.

    The object of a change is None where it cannot be read; it then counts as not being there.
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


_line = msgspec.json.Decoder(_Line)
_named = msgspec.json.Decoder(_Named)
_status = msgspec.json.Decoder(errors.ApiStatus)


async def watch(
    client: Client, selection: Selection, since: str, report: Report, *, silence: float = SILENCE
) -> AsyncGenerator[list[Step], None]:
    """What happened after `since`, in batches as they come off the wire, until the server ends the watch.

    The first batch is empty and only says that the server has taken the watch.

    Gone if `since` is too long ago: then list again and compare. Any other error, and the end, mean: again from the
    last resourceVersion seen.
    """
    params = {
        **selection.params(),
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": since,
        "timeoutSeconds": str(random.randint(SHORTEST, LONGEST)),
    }
    async with client.stream(selection.path, params=params, silence=silence) as parts:
        yield []  # the watch stands
        async for lines in _lines(parts, f"WATCH {selection.path}"):
            steps: list[Step] = []
            trouble: errors.ApiError | None = None
            for line in lines:
                try:
                    steps.append(_step(selection, line, report))
                except errors.ApiError as error:
                    trouble = error
                    break
            # What came before a bad line has happened all the same.
            if steps:
                yield steps
            if trouble is not None:
                raise trouble


async def _lines(parts: AsyncIterator[bytes], what: str) -> AsyncIterator[list[bytes]]:
    held: list[bytes] = []
    size = 0
    async for part in parts:
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield [line for line in b"".join([*held, head]).split(b"\n") if line.strip()]
            held, size = [], 0
        held.append(tail)
        size += len(tail)
        if size > LONGEST_LINE:
            raise errors.TooLarge(what, f"an event has more than {LONGEST_LINE} bytes")


def _step(selection: Selection, line: bytes, report: Report) -> Step:
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
