"""Opens a file, a pipe or stdin for one reading from start to end, and unpacks it if it is compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from muster.model.finding import Finding, InputError

__all__ = ["READ_ERRORS", "STDIN", "open_source", "unusable"]

STDIN = "-"
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a damaged file raises."""

_ZSTD = b"\x28\xb5\x2f\xfd"
_LONGEST_MAGIC = 6
_UNREADABLE = {
    b"PK\x03\x04": ("is a zip archive", "unpack it, or give it as .gz, .bz2, .xz or .zst"),
    b"\xff\xfe": ("is UTF-16 text", "save the file as UTF-8"),
    b"\xfe\xff": ("is UTF-16 text", "save the file as UTF-8"),
}


@contextmanager
def open_source(path: str) -> Iterator[IO[bytes]]:
    """Yields the unpacked bytes. They are read once and in order, so that pipes work. Raises InputError."""
    try:
        raw: IO[bytes] = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise unusable(path, f"cannot be read: {error.strerror}", "look at the path and its permissions") from None
    try:
        yield _unpacked(path, raw)
    finally:
        if path != STDIN:
            raw.close()


def unusable(path: str, message: str, fix: str = "", line: int | None = None) -> InputError:
    """Returns the error for a file that cannot be used."""
    return InputError(f"{path} cannot be used", [Finding("error", path, line, "", "file", message, fix)])


def _unpacked(path: str, raw: IO[bytes]) -> IO[bytes]:
    try:
        head = raw.read(_LONGEST_MAGIC)
    except OSError as error:
        raise unusable(path, f"cannot be read: {error.strerror}", "give a file, not a folder") from None
    stream = cast(IO[bytes], io.BufferedReader(_Rejoined(head, raw), 1 << 16))
    for magic, (message, fix) in _UNREADABLE.items():
        if head.startswith(magic):
            raise unusable(path, message, fix)
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if head.startswith(b"BZh"):
        return bz2.BZ2File(stream)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(stream)
    if head.startswith(_ZSTD):
        return _zstd(path, stream)
    return stream


def _zstd(path: str, stream: IO[bytes]) -> IO[bytes]:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise unusable(path, "zstd needs pyarrow", "pip install 'muster[replay]'") from None
    return cast(IO[bytes], io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"), 1 << 16))


class _Rejoined(io.RawIOBase):
    """The bytes that were read to recognise the file, and then the rest of it."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data, self._head = self._head[: len(view)], self._head[len(view) :]
        if not data:
            # read1 returns what a pipe has: a slow writer does not block rows that are complete.
            read = getattr(self._rest, "read1", self._rest.read)
            data = read(len(view))
        view[: len(data)] = data
        return len(data)


def file_name(path: str) -> str:
    """Returns the name of a source in messages."""
    return "stdin" if path == STDIN else os.fspath(path)
