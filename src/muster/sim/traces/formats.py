"""The published formats of traces.

Most formats are tables with a header: such a format is a column map. The Standard Workload Format (SWF) and Philly's
job log are no tables; they have readers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO

import msgspec
import numpy as np

from muster.sim.traces.chunks import ROWS_PER_CHUNK, BadRows, Chunk
from muster.sim.traces.jobs import KEYS
from muster.sim.traces.source import READ_ERRORS, unusable
from muster.sim.traces.table import FloatArray, IntArray

__all__ = [
    "FORMATS",
    "Format",
    "detect",
    "COLUMNS_OF_SWF",
    "is_swf",
    "swf_chunks",
    "COLUMNS_OF_PHILLY",
    "philly_chunks",
]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of tables with a header. It is recognised by the columns in `marks`."""

    name: str
    marks: tuple[str, ...]
    columns: dict[str, str]
    pods: int = 0
    """The pods of every job; 0 if a column has them, or if the replay divides the jobs."""
    order: tuple[str, ...] = field(default=())
    """The columns of a file that is published without a header."""


_HELIOS = {
    "name": "job_id", "user": "user", "pods": "node_num", "gpus": "gpu_num", "cpu": "cpu_num", "submit": "submit_time",
    "start": "start_time", "end": "end_time", "duration": "duration",
}  # fmt: skip

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("muster", (), {key: key for key in KEYS}),
        Format(
            "openb", ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
            {
                "name": "name", "cpu_milli": "cpu_milli", "memory_mib": "memory_mib", "gpus": "num_gpu",
                "gpu_milli": "gpu_milli", "model": "gpu_spec", "priority": "qos", "submit": "creation_time",
                "start": "scheduled_time", "end": "deletion_time",
            },
            pods=1,
        ),
        Format(
            "philly", ("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),
            {"submit": "timestamp", "duration": "duration", "gpus": "num_gpus", "queue": "cluster"},
        ),
        # The column `queue` of Helios and Acme has seconds of waiting.
        Format("helios", ("job_id", "vc", "gpu_num", "node_num", "submit_time"), {**_HELIOS, "queue": "vc"}),
        Format(
            "acme", ("job_id", "type", "gpu_num", "node_num", "submit_time"),
            {**_HELIOS, "queue": "type", "memory_gib_per_pod": "mem_per_pod_GB"},
        ),
        # A task has no time of submission; the table was made on a cluster where few tasks waited.
        Format(
            "pai", ("job_name", "task_name", "inst_num", "plan_cpu", "plan_gpu"),
            {
                "name": "job_name+task_name", "pods": "inst_num", "submit": "start_time", "end": "end_time",
                "cpu_percent_per_pod": "plan_cpu", "memory_gib_per_pod": "plan_mem",
                "gpus_percent_per_pod": "plan_gpu", "model": "gpu_type",
            },
            order=(
                "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
                "plan_gpu", "gpu_type",
            ),
        ),
        Format(
            "spot", ("organization", "gpu_request", "worker_num", "job_type"),
            {
                "name": "job_name", "queue": "organization", "model": "gpu_model", "cpu_per_pod": "cpu_request",
                "gpus_per_pod": "gpu_request", "pods": "worker_num", "submit": "submit_time", "duration": "duration",
                "priority": "job_type",
            },
        ),
        Format(
            "tiresias", ("job_id", "num_gpu", "submit_time", "iterations", "duration"),
            {"name": "job_id", "gpus": "num_gpu", "submit": "submit_time", "duration": "duration"},
        ),
    )
}  # fmt: skip


def detect(header: Sequence[str]) -> Format | None:
    """Returns the format of a header; None if it is not known."""
    if "submit" in header and len(header) > 1 and all(column in KEYS for column in header):
        return FORMATS["muster"]
    return next((one for one in FORMATS.values() if one.marks and set(one.marks) <= set(header)), None)


SWF_WIDTH = 18
COLUMNS_OF_SWF = {
    key: key for key in ("name", "submit", "duration", "estimate", "cpu", "memory_kib", "queue", "user")
}  # fmt: skip


def is_swf(line: str) -> bool:
    """Returns whether a line is a comment or a job of an SWF file."""
    cells = line.split()
    are_numbers = all(re.fullmatch(r"-?\d+(\.\d*)?", cell) for cell in cells)
    return line.startswith(";") or (len(cells) == SWF_WIDTH and are_numbers)


def swf_chunks(lines: Iterator[tuple[int, str]], bad: BadRows) -> Iterator[Chunk]:
    """Yields the jobs with the keys of a column map as the names of their columns."""
    rows: list[list[float]] = []
    numbers: list[int] = []
    for number, line in lines:
        if line.startswith((";", "#")):
            continue
        cells = line.split()
        if len(cells) != SWF_WIDTH:
            bad.add(number, f"the row has {len(cells)} columns, SWF has {SWF_WIDTH}")
            continue
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            bad.add(number, "the row has a text where SWF has a number")
            continue
        numbers.append(number)
        if len(rows) == ROWS_PER_CHUNK:
            yield _swf_chunk(np.array(rows), np.array(numbers, dtype=np.int64))
            rows, numbers = [], []
    if rows:
        yield _swf_chunk(np.array(rows), np.array(numbers, dtype=np.int64))


def _swf_chunk(table: FloatArray, lines: IntArray) -> Chunk:
    table = np.where(table == -1, np.nan, table)
    job, submit, _, run, used, _, used_memory, procs, estimate, memory, _, user, _, _, queue, *_ = table.T
    procs = np.where(procs > 0, procs, used)
    # SWF: memory is that of one processor.
    memory = np.where(memory > 0, memory, used_memory) * procs
    columns = {"submit": submit, "duration": run, "estimate": estimate, "cpu": procs, "memory_kib": memory}
    named = {"name": _numbered("job", job), "queue": _numbered("queue", queue), "user": _numbered("user", user)}
    return Chunk({**columns, **named}, lines)


def _numbered(kind: str, numbers: FloatArray) -> list[str]:
    return [f"{kind}-{number:.0f}" if abs(number) < np.inf else "" for number in numbers.tolist()]


COLUMNS_OF_PHILLY = {key: key for key in ("name", "user", "queue", "submit", "duration", "gpus", "pods")}


class _Detail(msgspec.Struct):
    """The GPUs of an attempt on one machine."""

    gpus: list[str] = []


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Detail] = []


class _Job(msgspec.Struct):
    jobid: str = ""
    vc: str = ""
    user: str | None = None
    submitted_time: str | None = None
    attempts: list[_Attempt] = []


def philly_chunks(stream: IO[bytes], bad: BadRows) -> Iterator[Chunk]:
    """Yields the jobs that ran. The line of a job is its number in the list."""
    try:
        entries = msgspec.json.decode(stream.read(), type=list[msgspec.Raw])
    except (*READ_ERRORS, msgspec.DecodeError, RecursionError) as error:
        fix = "a trace is CSV, Parquet, SWF or the list of Philly's jobs"
        raise unusable(bad.file, f"is not a JSON list of jobs: {error}", fix) from None
    columns: dict[str, list[str]] = {key: [] for key in COLUMNS_OF_PHILLY}
    numbers: list[int] = []
    for number, raw in enumerate(entries, 1):
        try:
            row = _philly_row(msgspec.json.decode(raw, type=_Job))
        except (ValueError, RecursionError) as error:
            bad.add(number, f"entry {number} of the list: {error}")
            continue
        numbers.append(number)
        for key, cell in row.items():
            columns[key].append(cell)
    yield Chunk(dict(columns), np.array(numbers, dtype=np.int64))


def _philly_row(job: _Job) -> dict[str, str]:
    """The job's machines are those of its last attempt; it runs for as long as all attempts did."""
    ran = [one for one in job.attempts if one.detail and _known(one.start_time) and _known(one.end_time)]
    if not ran:
        raise ValueError("the job has no attempt that started and ended")
    seconds = sum((_time(one.end_time) - _time(one.start_time)).total_seconds() for one in ran)
    machines = ran[-1].detail
    return {
        "name": job.jobid, "user": job.user or "", "queue": job.vc, "submit": job.submitted_time or "",
        "duration": repr(seconds), "gpus": str(sum(len(one.gpus) for one in machines)), "pods": str(len(machines)),
    }  # fmt: skip


def _known(text: str | None) -> bool:
    return text not in (None, "", "None")


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat(text or "")
