"""The files that `-f` names: files, folders with all they hold, `-` for the standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from muster.model.finding import Finding

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
