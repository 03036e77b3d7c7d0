"""How a page was made: the command, the files, the configuration, the version, and the time if it was given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from muster import __version__
from muster.model.meta import timestamp
from muster.sim.inputs import LoadedConfig

Rows = list[tuple[str, str]]
HASH_DIGITS = 16


def origin(
    command: str, files: Iterable[str] = (), configurations: Sequence[LoadedConfig] = (), time: float | None = None
) -> Rows:
    """Returns the rows of the section "Origin". Without a given `time` there is none: the page has the same bytes."""
    rows = [("command", command)]
    rows += [("file", _file(name)) for name in files]
    rows += [("configuration", str(one)) for one in configurations]
    rows.append(("version", f"muster {__version__}"))
    return [*rows, ("time", timestamp(time))] if time is not None else rows


def _file(name: str) -> str:
    """Returns the name of a file with the beginning of its SHA-256."""
    path = Path(name)
    if not path.is_file():
        return name
    with path.open("rb") as content:
        return f"{name} (sha256 {hashlib.file_digest(content, 'sha256').hexdigest()[:HASH_DIGITS]}…)"
