"""Reads files, folders and snapshots into documents, each with its file and line."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from muster.model.finding import Finding
from muster.model.jsontext import Decode, json_object
from muster.model.shape import steps
from muster.model.yamltext import Document, YamlError, load_each

# Lines inside a long list are found by reading the whole list again; above this the list's own line must do.
MAX_LOCATED_ITEMS = 10_000


class Location(Struct, frozen=True):
    """A document, or an item of a list in it."""

    file: str
    line: int | None  # None: an object in memory
    document: Document | None = None
    prefix: tuple[str | int, ...] = ()

    def line_of(self, path: str) -> int | None:
        """Returns the line of a field of the object."""
        if self.document is None or not (path or self.prefix):
            return self.line
        return self.document.line_of([*self.prefix, *steps(path)])

    def items(self, length: int) -> Iterable[Location]:
        """Returns the locations of the items of a list of this length."""
        if self.document is None or length > MAX_LOCATED_ITEMS:
            return repeat(Location(self.file, self.line), length)
        return (Location(self.file, self.line, self.document, (*self.prefix, "items", i)) for i in range(length))

    def without_document(self) -> Location:
        """Returns the location without the document, if its line is known."""
        return self if self.prefix or self.document is None else Location(self.file, self.line)


class Locations(Mapping[tuple[str, str], tuple[str, int | None]]):
    """(kind, key) → (file, line)."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Location] = {}

    def put(self, kind: str, key: str, place: Location) -> None:
        """Records the location of an object."""
        self._places[kind, key] = place

    def forget(self, kind: str, key: str) -> None:
        """Forgets the location of an object that is not kept."""
        del self._places[kind, key]

    def place(self, kind: str, key: str) -> Location:
        """Returns the location, which also knows the lines of fields if the document is still in memory."""
        return self._places[kind, key]

    def line_of_field(self, kind: str, key: str, path: str) -> int | None:
        """Returns the line of a field of an object; None if the object is not in the input."""
        place = self._places.get((kind, key))
        return None if place is None else place.line_of(path)

    def __getitem__(self, at: tuple[str, str]) -> tuple[str, int | None]:
        place = self._places[at]
        return place.file, place.line_of("")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


MAX_SNAPSHOT_BYTES = 2**30  # 100,000 pods are about half of that
UNCHECKED_UNPACKED_BYTES = 64 * 2**20
MAX_COMPRESSION_RATIO = 200  # objects of a real cluster are compressed 10 to 40 times
_GZIP = b"\x1f\x8b"


def values(
    name: str, data: bytes, expect: Callable[[int], None] | None = None, decode: Decode | None = None
) -> Iterator[tuple[Any, Location] | Finding]:
    """Yields every document of a text or every line of a snapshot; a finding instead of one that cannot be parsed.

    `expect` is called with the number of documents, as far as it is known before they are read. With `decode`, values
    and items of lists are the objects that it returns for their JSON text, unless it returns None.
    """
    if data.startswith(_GZIP):
        unpacked = _unpack(name, data)
        if isinstance(unpacked, Finding):
            yield unpacked
            return
        if unpacked.lstrip()[:1] == b"{":
            if expect is not None:
                expect(unpacked.count(b"\n"))
            yield from _lines(name, unpacked, decode)
            return
        data = unpacked
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte {data[error.start]:#04x} is not UTF-8 text"
        yield Finding("error", name, line, "", "yaml", message, "save the file as UTF-8")
        return
    if expect is not None:
        expect(text.count("\n---") + 1)
    for document in load_each(text, name, decode):
        if isinstance(document, YamlError):
            yield Finding("error", name, document.line, "", "yaml", document.message)
        else:
            value, document.value = document.value, None  # only its lines are needed from here on
            yield value, Location(name, document.line, document)


def _unpack(name: str, data: bytes) -> bytes | Finding:
    most = min(MAX_SNAPSHOT_BYTES, max(UNCHECKED_UNPACKED_BYTES, MAX_COMPRESSION_RATIO * len(data)))
    try:
        unpacked = gzip.GzipFile(fileobj=BytesIO(data)).read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        message = f"the snapshot cannot be unpacked: {error}"
        return Finding("error", name, None, "", "snapshot", message, "make the snapshot again")
    if len(unpacked) > most:
        message = f"the snapshot is larger than {most // 2**20} MiB unpacked"
        fix = "take fewer namespaces into it"
        if most < MAX_SNAPSHOT_BYTES:
            message += f", more than {MAX_COMPRESSION_RATIO} times its own size: no cluster is as monotonous"
            fix = "unpack it and look at what it holds"
        return Finding("error", name, None, "", "snapshot", message, fix)
    return unpacked


def _lines(name: str, data: bytes, decode: Decode | None) -> Iterator[tuple[Any, Location] | Finding]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                value = None if decode is None else json_object(line, decode)
                if value is None:
                    value = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                yield Finding("error", name, number, "", "snapshot", f"not JSON: {error}", "make the snapshot again")
            else:
                yield value, Location(name, number)


# What is read inside a folder; a file named by itself is read whatever its name.
SUFFIXES = (".yaml", ".yml", ".json", ".ndjson", ".yaml.gz", ".json.gz", ".ndjson.gz")
STDIN = "-"


def contents(paths: Iterable[str | os.PathLike[str]], findings: list[Finding]) -> Iterator[tuple[str, bytes]]:
    """Yields the name and content of every file; files that cannot be read are added to the findings."""
    seen: set[str] = set()
    for path in paths:
        name = os.fspath(path)
        for file in [name] if name == STDIN else _files(name, findings):
            # Given twice, or by itself and in its folder: it is still one file.
            real = file if file == STDIN else os.path.realpath(file)
            if real in seen:
                continue
            seen.add(real)
            try:
                yield file, sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
            except OSError as error:
                findings.append(_unreadable(file, error))


def _files(name: str, findings: list[Finding]) -> list[str]:
    if not os.path.isdir(name):
        return [name]
    found: list[str] = []
    for folder, below, files in os.walk(name, onerror=lambda error: findings.append(_unreadable(name, error))):
        below[:] = sorted(entry for entry in below if not entry.startswith("."))
        found.extend(
            os.path.join(folder, file) for file in files if file.endswith(SUFFIXES) and not file.startswith(".")
        )
    if not found:
        message = "no manifests in this folder"
        findings.append(Finding("error", name, None, "", "file", message, "they end in .yaml, .yml or .json"))
    return sorted(found)


def _unreadable(name: str, error: OSError) -> Finding:
    why = error.strerror or str(error)
    return Finding("error", name, None, "", "file", f"cannot be read: {why}", "look at the path and its permissions")
