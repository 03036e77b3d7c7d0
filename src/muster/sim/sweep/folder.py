"""The folder of a sweep: one JSON file for each finished cell, named by the hash of everything the cell depends on.

A file is complete or does not exist, also after a kill or a power failure: it is written under another name, synced
and renamed. A file that cannot be read is reported, and its cell is run again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from muster.model.finding import InputError

__all__ = ["ResultFolder", "write_atomically"]

CELLS = "cells"


class ResultFolder:
    """The results of a sweep on disk. Only JSON is read."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.unreadable: list[str] = []
        """Files that are no results; their cells are run again."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Creates the folder and keeps other sweeps out of it; raises InputError."""
        try:
            (self.path / CELLS).mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"{self.path}: the folder cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                message = f"{self.path}: another sweep writes to this folder (wait for its end, or give another folder)"
                raise InputError(message) from None
            yield
        finally:
            os.close(lock)

    def read(self, key: str) -> dict[str, Any] | None:
        """Returns the result of a cell; None if the cell must be run."""
        file = self._file(key)
        try:
            found = json.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found.get("key") == key and isinstance(found.get("metrics"), dict):
            return found
        self.unreadable.append(str(file))
        return None

    def write(self, key: str, result: dict[str, Any]) -> dict[str, Any]:
        """Writes the result of a cell, and returns it as it will be read."""
        content = encoded({"key": key, **result})
        write_atomically(self._file(key), content)
        found: dict[str, Any] = json.loads(content)
        return found

    def _file(self, key: str) -> Path:
        return self.path / CELLS / f"{key}.json"


def encoded(value: dict[str, Any]) -> bytes:
    """Returns a result as JSON, the same bytes for the same result."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def write_atomically(file: Path, content: bytes) -> None:
    """Writes a file so that a reader finds the old or the new content, never a part."""
    unfinished = file.with_name(f".{file.name}.tmp")
    try:
        with open(unfinished, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, file)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
