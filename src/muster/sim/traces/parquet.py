"""Reads a Parquet file as chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import numpy as np

from muster.sim.traces.chunks import ROWS_AT_ONCE, Chunk, Column
from muster.sim.traces.source import READ_ERRORS, unusable
from muster.sim.traces.write import EPOCH_LINE

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetRows", "MAGIC"]

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
            for batch in self._parquet.iter_batches(ROWS_AT_ONCE, columns=sorted(wanted)):
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
