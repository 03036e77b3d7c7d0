"""Reads files, folders and snapshots into documents, each with its file and line."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

from muster.model.finding import Finding
from muster.model.shape import steps
from muster.model.yamltext import Document, YamlError, load_each

# Lines inside a long list are found by reading the whole list again; above this the list's own line must do.
LONGEST_LIST = 10_000


@dataclass(frozen=True, slots=True)
class Location:
    """A document, or an item of a list in it."""

    file: str
    line: int | None  # None: an object in memory
    document: Document | None = None
    prefix: tuple[str | int, ...] = ()

    def line_of(self, path: str) -> int | None:
        """The line of a field of the object."""
        if self.document is None or not (path or self.prefix):
            return self.line
        return self.document.line_of([*self.prefix, *steps(path)])

    def item(self, index: int, length: int) -> Location:
        """Returns the location of an item of a list of this length."""
        if self.document is None or length > LONGEST_LIST:
            return Location(self.file, self.line)
        return Location(self.file, self.line, self.document, (*self.prefix, "items", index))

    def light(self) -> Location:
        """Returns the location without the document, if its line is known."""
        return self if self.prefix else Location(self.file, self.line)


class Locations(Mapping[tuple[str, str], tuple[str, int | None]]):
    """(kind, key) → (file, line)."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Location] = {}

    def put(self, kind: str, key: str, place: Location) -> None:
        """Remember where an object stands."""
        self._places[kind, key] = place

    def forget(self, kind: str, key: str) -> None:
        """An object is not kept after all."""
        del self._places[kind, key]

    def place(self, kind: str, key: str) -> Location:
        """The place itself, which also knows the lines of fields where the file is still at hand."""
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


LARGEST_SNAPSHOT = 2**30  # bytes; 100,000 pods are about half of that
ALWAYS_UNPACKED = 64 * 2**20
DENSEST = 200  # times its packed size; objects of a real cluster come to 10 to 40 times
_GZIP = b"\x1f\x8b"


def values(name: str, data: bytes) -> Iterator[tuple[Any, Location] | Finding]:
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
            yield value, Location(name, document.line, document)


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


def _lines(name: str, data: bytes) -> Iterator[tuple[Any, Location] | Finding]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                value = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                yield Finding("error", name, number, "", "snapshot", f"not JSON: {error}", "make the snapshot again")
            else:
                yield value, Location(name, number)


# What is read inside a folder; a file named by itself is read whatever its name.
SUFFIXES = (".yaml", ".yml", ".json", ".ndjson", ".yaml.gz", ".json.gz", ".ndjson.gz")
STDIN = "-"


def contents(paths: Iterable[str | os.PathLike[str]], findings: list[Finding]) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file; what cannot be read is added to the findings."""
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
