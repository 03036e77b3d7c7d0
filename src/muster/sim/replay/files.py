"""Writes the jobs and the samples of replays as CSV or Parquet, for notebooks and other tools."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muster.model.finding import InputError
from muster.sim.replay.metrics import job_figures
from muster.sim.replay.records import Replay
from muster.sim.traces.table import SIZES

Columns = dict[str, Any]  # arrays, or lists of texts
FORMATS = (".csv", ".parquet")


def write_jobs(path: str, replays: Sequence[Replay]) -> None:
    """Writes one row for each job of each replay. A cell without a value is empty."""
    _write(path, replays, _job_columns)


def write_samples(path: str, replays: Sequence[Replay]) -> None:
    """Writes one row for each interval, queue and resource of each replay."""
    _write(path, replays, _sample_columns)


def check_folder(path: str) -> None:
    """Raises InputError if the folder of a file does not exist, before a long replay and not after it."""
    if not Path(path).parent.is_dir():
        raise InputError(f"{path} cannot be written: the folder does not exist")


def check_path(path: str) -> None:
    """Raises InputError if a table cannot be written: no folder, an unknown suffix, or Parquet without pyarrow."""
    check_folder(path)
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise InputError(f"{path}: unknown suffix {suffix!r}; use .csv or .parquet")
    if suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise InputError(f"{path}: Parquet files need pyarrow: pip install 'muster[replay]'") from None


def _job_columns(replay: Replay) -> Columns:
    trace, figures = replay.trace, job_figures(replay)
    jobs = len(trace)
    return {
        "configuration": [replay.name] * jobs,
        "seed": [replay.seed] * jobs,
        "job": list(trace.names),
        "queue": _named(trace.queue, trace.queues),
        "user": _named(trace.user, trace.users),
        "priority": trace.priority,
        "size": _named(figures.size, SIZES),
        "model": _named(trace.model, trace.models),
        "pods": trace.pods,
        "minimum": trace.minimum,
        "cpu_milli": trace.cpu,
        "memory": trace.memory,
        "gpus": trace.gpus,
        "gpu_milli": trace.gpu_milli,
        "submit": trace.submit,
        "duration": trace.duration,
        "estimate": trace.estimate,
        "start": replay.start,
        "end": replay.end,
        "waiting": figures.waiting,
        "completion": figures.completion,
        "slowdown": figures.slowdown,
        "finish_time_ratio": figures.finish_ratio,
        "run": replay.run,
        "lost": replay.lost,
        "evictions": replay.evictions,
        "node_losses": replay.node_losses,
        "reason": [replay.reasons.get(i, "") for i in range(jobs)],
    }


def _sample_columns(replay: Replay) -> Columns:
    samples = replay.samples
    k, q, r = len(samples.times), len(samples.queues), len(samples.resources)
    rows = k * q * r

    def spread(values: Any, shape: tuple[int, int, int]) -> Any:
        return np.broadcast_to(np.asarray(values).reshape(shape), (k, q, r)).reshape(rows)

    return {
        "configuration": [replay.name] * rows,
        "seed": [replay.seed] * rows,
        "time": spread(samples.times, (k, 1, 1)),
        "queue": spread(np.array(samples.queues, dtype=object), (1, q, 1)).tolist(),
        "resource": spread(np.array(samples.resources, dtype=object), (1, 1, r)).tolist(),
        "capacity": spread(samples.capacity, (k, 1, r)),
        "allocated": samples.allocated.reshape(rows),
        "used": samples.used.reshape(rows),
        "deserved": samples.deserved.reshape(rows),
        "waiting": spread(samples.waiting, (k, q, 1)),
        "running": spread(samples.running, (k, q, 1)),
        "fragment": spread(samples.fragment, (k, 1, 1)),
    }


def _named(indices: Any, names: Sequence[str]) -> list[str]:
    return [names[i] for i in indices.tolist()]


def _write(path: str, replays: Sequence[Replay], columns: Callable[[Replay], Columns]) -> None:
    check_path(path)
    try:
        (_write_parquet if path.endswith(".parquet") else _write_csv)(path, (columns(replay) for replay in replays))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _write_csv(path: str, parts: Iterator[Columns]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for i, part in enumerate(parts):
            if i == 0:
                writer.writerow(part)
            writer.writerows(zip(*(_cells(column) for column in part.values()), strict=True))


def _cells(column: Any) -> list[Any]:
    if not isinstance(column, np.ndarray):
        return list(column)
    if column.dtype.kind != "f":
        return list(column.tolist())
    return ["" if math.isnan(value) else _number(value) for value in column.tolist()]


def _number(value: float) -> float | int:
    value = round(value, 6)
    return int(value) if value.is_integer() else value


def _write_parquet(path: str, parts: Iterator[Columns]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for part in parts:
        arrays = {name: _array(pa, name, column) for name, column in part.items()}
        table = pa.table(arrays)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _array(pa: Any, name: str, column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return pa.array(column, from_pandas=column.dtype.kind == "f")  # nan becomes null
    return pa.array(column, type=pa.int64() if name == "seed" else pa.string())
