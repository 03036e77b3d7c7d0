"""Reads the files of a trace: finds their format, and joins their jobs into one table."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import IO

import numpy as np

from muster.config.names import suggest
from muster.model.finding import Finding, InputError
from muster.sim.traces.chunks import (
    MAGIC,
    MAX_FINDINGS,
    BadRows,
    Chunk,
    Column,
    ParquetRows,
    delimited,
    delimiter_of,
    split,
    text_lines,
)
from muster.sim.traces.formats import (
    COLUMNS_OF_PHILLY,
    COLUMNS_OF_SWF,
    FORMATS,
    Format,
    detect,
    is_swf,
    philly_chunks,
    swf_chunks,
)
from muster.sim.traces.jobs import KEYS, ColumnMap, read_jobs, resolve
from muster.sim.traces.names import job_names, valid_names
from muster.sim.traces.source import READ_ERRORS, file_name, open_source, unusable
from muster.sim.traces.table import FloatArray, IntArray, Trace
from muster.sim.traces.write import EPOCH_LINE

__all__ = ["FORMAT_NAMES", "read_trace", "JoinedJobs"]

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
    findings = joined.findings[:MAX_FINDINGS]
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


MIN_UNIX_TIME_S = 3.2e8
"""Seconds from this on are since 1970 (it is 1980 then): a trace with relative times is shorter than ten years."""

_FLOATS = ("duration", "estimate", "usage")
_INTEGERS = ("pods", "minimum", "cpu", "memory", "gpus", "gpu_milli", "priority")
_TEXTS = ("queue", "model", "user")


class JoinedJobs:
    """The jobs that were read so far."""

    def __init__(self) -> None:
        self.jobs = 0
        self.findings: list[Finding] = []
        self._bad_rows = 0
        self._names: list[str] = []
        self._columns: dict[str, list[Column]] = {name: [] for name in (*_FLOATS, *_INTEGERS, *_TEXTS)}
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _TEXTS}
        self._file = ""
        self._epoch: float | None = None
        self._times: list[FloatArray] = []
        self._submits: list[tuple[str, float | None, FloatArray]] = []

    def start_file(self, file: str, epoch: float | None) -> None:
        """Begins a file. Its times are relative to `epoch`, if that is known."""
        self._file, self._epoch, self._times = file, epoch, []

    def add(self, columns: dict[str, Column]) -> None:
        """Adds jobs of the current file."""
        self.jobs += len(columns["submit"])
        self._times.append(np.asarray(columns["submit"], dtype=np.float64))
        self._names += columns["name"]
        for name in _FLOATS:
            self._columns[name].append(columns[name])
        for name in _INTEGERS:
            self._columns[name].append(np.asarray(columns[name], dtype=np.int64))
        for name in _TEXTS:
            codes = self._codes[name]
            coded = [codes.setdefault(text, len(codes)) for text in columns[name]]
            self._columns[name].append(np.array(coded, dtype=np.int64))

    def end_file(self, bad: BadRows) -> None:
        """Ends a file."""
        self.findings += bad.findings
        self._bad_rows += bad.count
        submit = np.concatenate(self._times) if self._times else np.zeros(0)
        if self._epoch is None and len(submit) and submit.min() >= MIN_UNIX_TIME_S:
            self._epoch = float(math.floor(submit.min()))
            submit = submit - self._epoch
        self._submits.append((self._file, self._epoch, submit))

    def trace(self, source: str) -> Trace:
        """Returns all jobs, sorted by their submission."""
        submit, epoch = self._joined_times()
        order = np.argsort(submit, kind="stable")
        columns = {name: np.concatenate(parts)[order] for name, parts in self._columns.items()}
        queues, columns["queue"] = self._indexed("queue", columns["queue"])
        models, columns["model"] = self._indexed("model", columns["model"])
        users, columns["user"] = self._indexed("user", columns["user"])
        return Trace(
            source=source, epoch=epoch, names=job_names([self._names[i] for i in order.tolist()]),
            submit=submit[order], **columns, queues=queues, models=models, users=users,
            findings=tuple(self.findings[:MAX_FINDINGS]), bad_rows=self._bad_rows,
        )  # fmt: skip

    def _joined_times(self) -> tuple[FloatArray, float]:
        """The times since the earliest time zero of the files."""
        known = [epoch for _, epoch, submit in self._submits if epoch is not None and len(submit)]
        common = min(known, default=0.0)
        parts: list[FloatArray] = []
        for file, epoch, submit in self._submits:
            if epoch is None and known and len(submit):
                message = "the times are relative, those of another file are not: its time zero is taken"
                fix = "add a line `# UnixStartTime: SECONDS` above the header"
                self.findings.insert(0, Finding("warning", file, None, "", "time", message, fix))
            parts.append(submit if epoch is None else submit + (epoch - common))
        return np.concatenate(parts), common

    def _indexed(self, column: str, codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
        """Replaces the codes of texts by indices of sorted names."""
        texts = list(self._codes[column])
        if column == "model":
            names = {text: text for text in texts}
        else:
            names = valid_names((text for text in texts if text), column)
            names[""] = "default" if column == "queue" else ""
        there = tuple(sorted({names[text] for text in texts}))
        index = {name: i for i, name in enumerate(there)}
        return there, np.array([index[names[text]] for text in texts], dtype=np.int64)[codes]
