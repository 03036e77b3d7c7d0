"""The Standard Workload Format of the Parallel Workloads Archive: 18 columns of numbers, -1 where one is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from muster.sim.traces.chunks import ROWS_AT_ONCE, BadRows, Chunk
from muster.sim.traces.table import FloatArray, IntArray

__all__ = ["COLUMNS_OF_SWF", "is_swf", "swf_chunks"]

WIDTH = 18
COLUMNS_OF_SWF = {
    key: key for key in ("name", "submit", "duration", "estimate", "cpu", "memory_kib", "queue", "user")
}  # fmt: skip


def is_swf(line: str) -> bool:
    """Returns whether a line is a comment or a job of an SWF file."""
    cells = line.split()
    return line.startswith(";") or (len(cells) == WIDTH and all(re.fullmatch(r"-?\d+(\.\d*)?", one) for one in cells))


def swf_chunks(lines: Iterator[tuple[int, str]], bad: BadRows) -> Iterator[Chunk]:
    """Yields the jobs with the keys of a column map as the names of their columns."""
    rows: list[list[float]] = []
    numbers: list[int] = []
    for number, line in lines:
        if line.startswith((";", "#")):
            continue
        cells = line.split()
        if len(cells) != WIDTH:
            bad.add(number, f"the row has {len(cells)} columns, SWF has {WIDTH}")
            continue
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            bad.add(number, "the row has a text where SWF has a number")
            continue
        numbers.append(number)
        if len(rows) == ROWS_AT_ONCE:
            yield _chunk(np.array(rows), np.array(numbers, dtype=np.int64))
            rows, numbers = [], []
    if rows:
        yield _chunk(np.array(rows), np.array(numbers, dtype=np.int64))


def _chunk(table: FloatArray, lines: IntArray) -> Chunk:
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
