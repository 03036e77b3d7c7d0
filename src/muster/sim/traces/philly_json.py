"""Philly's job log as Microsoft publishes it: a JSON list of jobs with their attempts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import IO

import msgspec
import numpy as np

from muster.sim.traces.chunks import BadRows, Chunk
from muster.sim.traces.source import READ_ERRORS, unusable

__all__ = ["COLUMNS_OF_PHILLY", "philly_chunks"]

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
            row = _row(msgspec.json.decode(raw, type=_Job))
        except (ValueError, RecursionError) as error:
            bad.add(number, f"entry {number} of the list: {error}")
            continue
        numbers.append(number)
        for key, cell in row.items():
            columns[key].append(cell)
    yield Chunk(dict(columns), np.array(numbers, dtype=np.int64))


def _row(job: _Job) -> dict[str, str]:
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
