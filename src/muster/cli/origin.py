"""The origin of a page: the command that made it, its input, and the time if it was given."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from muster import __version__

if TYPE_CHECKING:
    from muster.sim.inputs import LoadedConfig


# Options that do not change the page.
LEFT_OUT = frozenset({
    "form", "jobs", "samples", "html", "timings", "processes", "verbosity", "report", "fail_on_pending",
    "folder", "address", "tls_ca", "tls_cert", "tls_key",
})  # fmt: skip
EPOCH = "SOURCE_DATE_EPOCH"
HASH_DIGITS = 16


def origin_rows(files: Iterable[str] = (), configurations: Sequence[LoadedConfig] = ()) -> list[tuple[str, str]]:
    """Returns the rows of the section "Origin" for the current command.

    Without a given time there is none: the same input gives the same bytes.
    """
    from muster.model.meta import timestamp

    now = click.get_current_context().params.get("now")
    time = now if now is not None else _source_date()
    rows = [("command", command_line())]
    rows += [("file", _file(name)) for name in files]
    rows += [("configuration", str(one)) for one in configurations]
    rows.append(("version", f"muster {__version__}"))
    return [*rows, ("time", timestamp(time))] if time is not None else rows


def command_line(left_out: Collection[str] = LEFT_OUT) -> str:
    """Returns the current command without the options that do not change the page."""
    context = click.get_current_context()
    words = ["muster", context.info_name or ""]
    for param in context.command.params:
        value = context.params.get(param.name or "")
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if not given or param.name in left_out:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(param, click.Option):
                words.append(param.opts[0])
            if not isinstance(one, bool):
                words.append(_word(param.name or "", one))
    return shlex.join(words)


def _word(name: str, value: object) -> str:
    from muster.model.meta import timestamp

    if isinstance(value, Mapping):
        return ",".join(f"{key}={str(one).lower()}" for key, one in value.items())
    if isinstance(value, float):
        return timestamp(value) if name == "now" else f"{value:g}"
    return str(value)


def _source_date() -> float | None:
    """Returns the time of reproducible builds (reproducible-builds.org); None if it is not set or not a number."""
    text = os.environ.get(EPOCH, "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _file(name: str) -> str:
    """Returns the name of a file with the beginning of its SHA-256."""
    path = Path(name)
    if not path.is_file():
        return name
    with path.open("rb") as content:
        return f"{name} (sha256 {hashlib.file_digest(content, 'sha256').hexdigest()[:HASH_DIGITS]}…)"
