"""A recorded run as files: the trace with the actual submissions and run lengths, and when each job started."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from live.api import Plain
from muster.sim.traces.read import read_trace
from muster.sim.traces.table import Trace
from muster.sim.traces.write import write_csv

TRACE, STARTS = "replay-trace.csv", "replay-starts.csv"


@dataclass(frozen=True)
class Recording:
    """Times are in seconds since the epoch of the trace."""

    trace: Trace
    starts: Mapping[str, float]  # jobs that started, in the order of the scheduler's decisions
    seconds: float  # when the run ended; a job that still ran has no end


def write_recording(folder: Path, recording: Recording) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TRACE).open("wb") as file:
        write_csv(recording.trace, file)
    with (folder / STARTS).open("w", encoding="utf-8", newline="") as text:
        csv.writer(text, lineterminator="\n").writerows([("job", "start"), *recording.starts.items()])


def read_recording(folder: Path, seconds: float) -> Recording:
    with (folder / STARTS).open(encoding="utf-8", newline="") as text:
        starts = {row["job"]: float(row["start"]) for row in csv.DictReader(text)}
    return Recording(read_trace([str(folder / TRACE)]), starts, seconds)


def waits(recording: Recording) -> Plain:
    """Returns how many jobs waited, and how long."""
    trace, starts = recording.trace, recording.starts
    found = np.array([starts[name] - trace.submit[i] for i, name in enumerate(trace.names) if name in starts])
    return {"jobs that waited 1 s and longer": int((found >= 1).sum()), "longest wait, s": round(float(found.max()), 1)}
