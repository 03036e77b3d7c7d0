"""Parquet files of others: times, nulls, dictionaries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muster.model.finding import InputError
from muster.sim.traces.read import read_trace


def test_a_parquet_file_is_read_by_a_column_map(tmp_path: Path) -> None:
    start = datetime(2026, 1, 5, 8, tzinfo=UTC)
    table = pa.table({
        "at": pa.array([start, start + timedelta(seconds=90), None], pa.timestamp("ms", tz="UTC")),
        "run": pa.array([timedelta(minutes=2), timedelta(seconds=1), timedelta(0)], pa.duration("s")),
        "n": pa.array([8, None, 1], pa.int16()),
        "team": pa.array(["a", "b", "a"]).dictionary_encode(),
        "id": pa.array([7, 8, 9]),
        "unused": pa.array([[1], [], None]),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t")
    columns = {"submit": "at", "duration": "run", "gpus": "n", "queue": "team", "name": "id"}
    trace = read_trace([str(tmp_path / "t")], columns=columns)
    assert (trace.epoch, trace.submit.tolist()) == (start.timestamp(), [0, 90])
    assert (trace.duration.tolist(), trace.gpus.tolist()) == ([120, 1], [8, 0])
    assert (trace.queues, list(trace.names)) == (("a", "b"), ["7", "8"])
    assert [str(one) for one in trace.findings] == [f"{tmp_path / 't'}:3: error: at is missing"]


def test_a_parquet_file_is_no_trace_of_another_format(tmp_path: Path) -> None:
    pq.write_table(pa.table({"submit": [1.0], "duration": [2.0]}), tmp_path / "t")
    for format in ("swf", "philly-json", "openb"):
        with pytest.raises(InputError):
            read_trace([str(tmp_path / "t")], format=format)
