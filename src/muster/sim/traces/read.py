"""Reads the files of a trace: finds their format, and joins their jobs into one table."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import IO

from muster.config.names import suggest
from muster.model.finding import InputError
from muster.sim.traces.chunks import MOST_FINDINGS, BadRows, Chunk, delimited, delimiter_of, split, text_lines
from muster.sim.traces.column_map import KEYS, ColumnMap, resolve
from muster.sim.traces.formats import FORMATS, Format, detect
from muster.sim.traces.jobs import read_jobs
from muster.sim.traces.joined import JoinedJobs
from muster.sim.traces.parquet import MAGIC, ParquetRows
from muster.sim.traces.philly_json import COLUMNS_OF_PHILLY, philly_chunks
from muster.sim.traces.source import READ_ERRORS, file_name, open_source, unusable
from muster.sim.traces.swf import COLUMNS_OF_SWF, is_swf, swf_chunks
from muster.sim.traces.table import Trace
from muster.sim.traces.write import EPOCH_LINE

__all__ = ["FORMAT_NAMES", "read_trace"]

SWF, PHILLY_JSON = "swf", "philly-json"
FORMAT_NAMES = tuple(sorted((*FORMATS, SWF, PHILLY_JSON)))
_EPOCH = re.compile(rf"^[#;]\s*{EPOCH_LINE}:\s*(-?[\d.]+)", re.IGNORECASE)
"""The time zero, in a comment above the jobs."""


def read_trace(
    paths: Sequence[str], *, format: str = "", columns: Mapping[str, str] | None = None, strict: bool = False
) -> Trace:
    """Reads traces and joins them; "-" is stdin.

    `columns` is a column map: alone it defines the format, with `format` it replaces some of its columns. Rows that
    cannot be used are left out and become findings; with `strict` the first one raises InputError.
    """
    if format and format not in FORMAT_NAMES:
        raise InputError(f"there is no format {format}: {suggest(format, FORMAT_NAMES)}")
    if columns and format in (SWF, PHILLY_JSON):
        raise InputError(f"the format {format} has no column map")
    joined = JoinedJobs()
    for path in paths:
        bad = BadRows(file_name(path), strict)
        with open_source(path) as stream:
            _read_file(stream, bad, format, dict(columns or {}), joined)
        bad.settle()
        joined.end_file(bad)
    findings = joined.findings[:MOST_FINDINGS]
    if not joined.jobs:
        names = ", ".join(map(file_name, paths)) or "the input"
        raise InputError(f"there is no job in {names} that can be used", findings)
    return joined.trace(", ".join(map(file_name, paths)))


def _read_file(stream: IO[bytes], bad: BadRows, format: str, columns: dict[str, str], joined: JoinedJobs) -> None:
    head = _peek(stream)
    if head.startswith(MAGIC) and format not in (SWF, PHILLY_JSON):
        table = ParquetRows(stream, bad.file)
        joined.start_file(bad.file, _epoch([f"# {EPOCH_LINE}: {table.epoch}"]))
        form, keys = _columns_of(table.header, format, columns, bad.file)
        resolved = resolve(keys, table.header, required=columns, file=bad.file)
        wanted = {column for _, parts in resolved.values() for column in parts}
        _add(table.chunks(wanted), resolved, form, bad, joined)
        return
    if format == PHILLY_JSON or (not format and not columns and head.lstrip()[:1] in (b"[", b"{")):
        joined.start_file(bad.file, None)
        resolved = resolve(COLUMNS_OF_PHILLY, tuple(COLUMNS_OF_PHILLY), required=(), file=bad.file)
        _add(philly_chunks(stream, bad), resolved, None, bad, joined)
        return
    _read_text(stream, bad, format, columns, joined)


def _read_text(stream: IO[bytes], bad: BadRows, format: str, columns: dict[str, str], joined: JoinedJobs) -> None:
    lines = text_lines(stream, bad)
    comments: list[str] = []
    first: tuple[int, str] | None = None
    for number, line in lines:
        if not line.startswith(("#", ";")):
            first = (number, line)
            break
        comments.append(line)
    joined.start_file(bad.file, _epoch(comments))
    if first is None:
        bad.settle()
        if bad.findings:
            raise InputError(f"{bad.file} cannot be used", bad.findings)
        raise unusable(bad.file, "has no rows", "give a trace: CSV, Parquet or SWF")
    if format == SWF or (not format and not columns and (any(map(_is_swf_comment, comments)) or is_swf(first[1]))):
        resolved = resolve(COLUMNS_OF_SWF, tuple(COLUMNS_OF_SWF), required=(), file=bad.file)
        _add(swf_chunks(chain([first], lines), bad), resolved, None, bad, joined)
        return
    delimiter = delimiter_of(first[1])
    header = _header(first, delimiter, bad.file)
    rows: Iterator[tuple[int, str]] = lines
    if format and FORMATS[format].order and not set(FORMATS[format].marks) <= set(header):
        header, rows = list(FORMATS[format].order), chain([first], lines)
    form, keys = _columns_of(header, format, columns, bad.file, first[0])
    resolved = resolve(keys, header, required=columns, file=bad.file)
    _add(delimited(rows, header, delimiter, bad), resolved, form, bad, joined)


def _add(
    chunks: Iterable[Chunk], resolved: ColumnMap, form: Format | None, bad: BadRows, joined: JoinedJobs
) -> None:
    for chunk in chunks:
        joined.add(read_jobs(chunk, resolved, form.pods if form else 0, bad))
        bad.settle()


def _columns_of(
    header: list[str], format: str, columns: dict[str, str], file: str, line: int | None = None
) -> tuple[Format | None, dict[str, str]]:
    """Returns the format of a table, if it has one, and its column map."""
    if columns and not format:
        return None, columns
    form = FORMATS[format] if format else detect(header)
    if form is None:
        fix = f"give --columns KEY=COLUMN,…, or --format {'|'.join(FORMAT_NAMES)}"
        shown = ", ".join(header[:12]) + (", …" if len(header) > 12 else "")
        raise unusable(file, f"the columns are those of no known format: {shown[:200]}", fix, line)
    missing = [column for column in form.marks if column not in header]
    if missing:
        raise unusable(file, f"the format {form.name} has a column {missing[0]!r}, this file does not", "", line)
    replaced = {KEYS[key].value for key in columns if key in KEYS}
    return form, {**{k: column for k, column in form.columns.items() if KEYS[k].value not in replaced}, **columns}


def _header(first: tuple[int, str], delimiter: str, file: str) -> list[str]:
    try:
        return [cell.strip() for cell in split(first[1], delimiter)]
    except csv.Error as error:
        raise unusable(file, f"the header cannot be split into columns: {error}", line=first[0]) from None


def _epoch(comments: Iterable[str]) -> float | None:
    for comment in comments:
        if found := _EPOCH.match(comment):
            try:
                return float(found[1])
            except ValueError:
                return None
    return None


def _is_swf_comment(comment: str) -> bool:
    return comment.startswith(";")


def _peek(stream: IO[bytes]) -> bytes:
    """Returns the first bytes without taking them; none if the file is damaged, which its reader reports."""
    try:
        return bytes(stream.peek(16))  # type: ignore[attr-defined]
    except READ_ERRORS:
        return b""
