"""The bytes of a manifest or snapshot → the values in it, each with its place."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import msgspec

from muster.cluster.place import Place
from muster.model.finding import Finding
from muster.model.yamltext import YamlError, load_each

LARGEST_SNAPSHOT = 2**30  # bytes; 100,000 pods are about half of that
ALWAYS_UNPACKED = 64 * 2**20
DENSEST = 200  # times its packed size; objects of a real cluster come to 10 to 40 times
_GZIP = b"\x1f\x8b"


def values(name: str, data: bytes) -> Iterator[tuple[Any, Place] | Finding]:
    """Every document of a text, every line of a snapshot; a finding in the place of what cannot be read."""
    if data.startswith(_GZIP):
        unpacked = _unpack(name, data)
        if isinstance(unpacked, Finding):
            yield unpacked
            return
        if unpacked.lstrip()[:1] == b"{":
            yield from _lines(name, unpacked)
            return
        data = unpacked
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte {data[error.start]:#04x} is not UTF-8 text"
        yield Finding("error", name, line, "", "yaml", message, "save the file as UTF-8")
        return
    for document in load_each(text, name):
        if isinstance(document, YamlError):
            yield Finding("error", name, document.line, "", "yaml", document.message)
        else:
            value, document.value = document.value, None  # only its lines are needed from here on
            yield value, Place(name, document.line, document)


def _unpack(name: str, data: bytes) -> bytes | Finding:
    most = min(LARGEST_SNAPSHOT, max(ALWAYS_UNPACKED, DENSEST * len(data)))
    try:
        unpacked = gzip.GzipFile(fileobj=BytesIO(data)).read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        message = f"the snapshot cannot be unpacked: {error}"
        return Finding("error", name, None, "", "snapshot", message, "make the snapshot again")
    if len(unpacked) > most:
        message = f"the snapshot is larger than {most // 2**20} MiB unpacked"
        fix = "take fewer namespaces into it"
        if most < LARGEST_SNAPSHOT:
            message += f", more than {DENSEST} times its own size: no cluster is as monotonous"
            fix = "unpack it and look at what it holds"
        return Finding("error", name, None, "", "snapshot", message, fix)
    return unpacked


def _lines(name: str, data: bytes) -> Iterator[tuple[Any, Place] | Finding]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                value = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                yield Finding("error", name, number, "", "snapshot", f"not JSON: {error}", "make the snapshot again")
            else:
                yield value, Place(name, number)
