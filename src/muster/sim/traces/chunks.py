"""Rows of a CSV or Parquet file as columns, some thousand at a time; and the rows that cannot be used."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import numpy as np

from muster.model.finding import Finding, InputError
from muster.sim.traces.source import READ_ERRORS, unusable
from muster.sim.traces.table import BoolArray, FloatArray, IntArray
from muster.sim.traces.write import EPOCH_LINE

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BadRows", "Chunk", "Column", "delimited", "delimiter_of", "split", "text_lines", "ParquetRows", "MAGIC"]

Column = list[str] | FloatArray
ROWS_PER_CHUNK = 20_000
MAX_FINDINGS = 100
MAX_LINE_BYTES = 1 << 20


@dataclass(slots=True)
class BadRows:
    """Counts the rows of one file that are left out, and keeps findings about the first of them."""

    file: str
    strict: bool = False
    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    _waiting: list[Finding] = field(default_factory=list)

    def add(self, line: int, message: str, fix: str = "") -> None:
        """Reports a row that is left out."""
        self.count += 1
        self._waiting.append(Finding("error", self.file, line, "", "row", message, fix))

    def settle(self) -> None:
        """Takes up what was reported since the last call. Raises InputError with the first of it if strict."""
        self._waiting.sort(key=lambda finding: finding.line or 0)
        if self.strict and self._waiting:
            raise InputError(f"{self.file} has a row that cannot be used", self._waiting[:1])
        self.findings += self._waiting[: MAX_FINDINGS - len(self.findings)]
        self._waiting.clear()


@dataclass(slots=True)
class Chunk:
    """Some rows as columns, and the line of each row."""

    columns: dict[str, Column]
    lines: IntArray

    def rows(self, chosen: BoolArray) -> Chunk:
        """Returns the chosen rows."""
        keep = np.flatnonzero(chosen).tolist()
        columns: dict[str, Column] = {
            name: [column[i] for i in keep] if isinstance(column, list) else column[chosen]
            for name, column in self.columns.items()
        }
        return Chunk(columns, self.lines[chosen])


def text_lines(stream: IO[bytes], bad: BadRows) -> Iterator[tuple[int, str]]:
    """Yields the lines that are text, without those that are blank, each with its number."""
    number = 0
    while True:
        number += 1
        try:
            raw = stream.readline(MAX_LINE_BYTES)
            too_long = len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n")
            while too_long and (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
        except READ_ERRORS as error:
            bad.add(number, f"the file cannot be read from here on: {error}", "download or pack it again")
            return
        if not raw:
            return
        if too_long:
            bad.add(number, "the line is longer than 1 MiB")
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            bad.add(number, f"byte {raw[error.start]:#04x} is not UTF-8 text", "save the file as UTF-8")
            continue
        if "\0" in line:
            bad.add(number, "the line has a NUL character")
        elif line and not line.isspace():
            yield number, line


def delimiter_of(header: str) -> str:
    """Returns what separates the columns of a header: comma, tab, semicolon or bar."""
    return next((one for one in ",\t;|" if one in header), ",")


def split(line: str, delimiter: str) -> list[str]:
    """Returns the cells of a line. A row is one line: a quoted cell must end where it began. Raises csv.Error."""
    if '"' not in line:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter, strict=True))


def delimited(lines: Iterator[tuple[int, str]], header: list[str], delimiter: str, bad: BadRows) -> Iterator[Chunk]:
    """Yields the rows under a header as chunks."""
    width = len(header)
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, line in lines:
        if line[0] == "#":
            continue
        try:
            cells = split(line, delimiter)
        except csv.Error as error:
            bad.add(number, f"the row cannot be split into columns: {error}")
            continue
        if len(cells) != width:
            bad.add(number, f"the row has {len(cells)} columns, the header has {width}")
            continue
        rows.append(cells)
        numbers.append(number)
        if len(rows) == ROWS_PER_CHUNK:
            yield _chunk(header, rows, numbers)
            rows, numbers = [], []
    if rows:
        yield _chunk(header, rows, numbers)


def _chunk(header: list[str], rows: list[list[str]], numbers: list[int]) -> Chunk:
    columns: dict[str, Column] = {}
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        columns.setdefault(name, list(cells))
    return Chunk(columns, np.array(numbers, dtype=np.int64))


MAGIC = b"PAR1"


class ParquetRows:
    """The header of a Parquet file, its time zero (as text) and its rows; a line is the number of a row."""

    def __init__(self, stream: IO[bytes], file: str) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ModuleNotFoundError:
            raise unusable(file, "Parquet needs pyarrow", "pip install 'muster[replay]'") from None
        try:
            # The index of a Parquet file is at its end: a pipe is read whole.
            self._parquet = pq.ParquetFile(pa.BufferReader(stream.read()))
            self.header: list[str] = list(self._parquet.schema_arrow.names)
            metadata = self._parquet.schema_arrow.metadata or {}
        except (*READ_ERRORS, pa.ArrowException, ValueError) as error:
            raise unusable(file, f"is a Parquet file that cannot be read: {error}", "make it again") from None
        self.epoch = metadata.get(EPOCH_LINE.encode(), b"").decode(errors="replace")
        self._file = file

    def chunks(self, wanted: set[str]) -> Iterator[Chunk]:
        """Yields the rows with the wanted columns."""
        import pyarrow as pa

        row = 0
        try:
            for batch in self._parquet.iter_batches(ROWS_PER_CHUNK, columns=sorted(wanted)):
                columns = {name: _column(batch.column(i)) for i, name in enumerate(batch.schema.names)}
                yield Chunk(columns, np.arange(row + 1, row + 1 + batch.num_rows))
                row += batch.num_rows
        except (*READ_ERRORS, pa.ArrowException, ValueError) as error:
            raise unusable(self._file, f"cannot be read from here on: {error}", "make it again", row + 1) from None


def _column(values: pa.Array) -> Column:
    """Numbers as floats (a time in seconds since 1970), everything else as texts; a null is nan or empty."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_timestamp(values.type) or kinds.is_date(values.type):
        values = values.cast(pa.timestamp("us", tz=getattr(values.type, "tz", None))).cast(pa.int64())
        return np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False)) / 1e6
    if kinds.is_duration(values.type):
        return np.array(values.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()).to_numpy(False)) / 1e6
    if kinds.is_boolean(values.type) or kinds.is_integer(values.type) or kinds.is_floating(values.type):
        return np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    return ["" if value is None else str(value) for value in values.to_pylist()]
