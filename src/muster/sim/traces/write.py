"""Writes a trace as CSV or Parquet with muster's own columns, which `read_trace` reads back exactly."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from muster.model.finding import InputError
from muster.sim.traces.table import Trace

__all__ = ["HEADER", "write_csv", "write_parquet"]

HEADER = {
    "name": "names", "submit": "submit", "duration": "duration", "estimate": "estimate", "pods": "pods",
    "minimum": "minimum", "cpu_milli": "cpu", "memory": "memory", "gpus": "gpus", "gpu_milli": "gpu_milli",
    "priority": "priority", "queue": "queue", "model": "model", "user": "user", "usage": "usage",
}  # fmt: skip
"""The columns of a file, and the fields of `Trace` that they have."""

EPOCH_LINE = "UnixStartTime"  # the name that SWF gives it
ROWS_PER_CHUNK = 10_000
_INDEXED = {"queue": "queues", "model": "models", "user": "users"}
_FLOATS = ("submit", "duration", "estimate", "usage")


def write_csv(trace: Trace, to: IO[bytes]) -> None:
    """Writes one line per job. Numbers are written so that they are read back exactly."""
    if trace.epoch:
        to.write(f"# {EPOCH_LINE}: {_number(trace.epoch)}\n".encode())
    to.write(f"{','.join(HEADER)}\n".encode())
    for start in range(0, len(trace), ROWS_PER_CHUNK):
        text = io.StringIO()
        part = slice(start, start + ROWS_PER_CHUNK)
        csv.writer(text, lineterminator="\n").writerows(zip(*_cells(trace, part, _number), strict=True))
        to.write(text.getvalue().encode())


def write_parquet(trace: Trace, to: IO[bytes]) -> None:
    """Writes a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise InputError("Parquet needs pyarrow (pip install 'muster[replay]')") from None
    everything = slice(0, len(trace))
    columns = dict(zip(HEADER, _cells(trace, everything, float), strict=True))
    types = {name: pa.float64() if name in _FLOATS else pa.int64() for name in columns}
    types |= {name: pa.string() for name in ("name", *_INDEXED)}
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    buffer = pa.BufferOutputStream()  # a pipe has no position, which Parquet asks for
    pq.write_table(table.replace_schema_metadata({EPOCH_LINE: _number(trace.epoch)}), buffer)
    to.write(buffer.getvalue())


def _cells(
    trace: Trace, part: slice, number: Callable[[float], str | float]
) -> Iterator[Sequence[str | int | float]]:
    for name, attribute in HEADER.items():
        values = getattr(trace, attribute)[part]
        if name in _INDEXED:
            names = getattr(trace, _INDEXED[name])
            yield [names[i] for i in values.tolist()]
        elif name in _FLOATS:
            yield [number(value) for value in values.tolist()]
        else:
            yield values if name == "name" else values.tolist()


def _number(value: float) -> str:
    """Returns the shortest text that is read back as this number; empty for nan, which means unknown."""
    return "" if math.isnan(value) else str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
