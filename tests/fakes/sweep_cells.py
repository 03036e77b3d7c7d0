"""Small functions in place of a replay, for tests of what runs cells: worker processes import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from muster.model.finding import InputError
from muster.sim.sweep.cells import Cell, SweepResult
from muster.sim.sweep.processes import Failure

EVIL = '<script>alert("x")</script>'


def squared(shared: int, cell: Cell) -> dict[str, Any]:
    """The square of the seed, plus what all cells share."""
    assert cell.seed is not None
    return {"metrics": {"value": cell.seed**2 + shared, "by": cell.configuration}}


def failing(shared: int, cell: Cell) -> dict[str, Any]:
    """Fails in all the ways that a cell can fail: seeds 1 to 3."""
    if cell.seed == 1:
        raise ValueError("an odd\nmistake")
    if cell.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if cell.seed == 3:
        raise InputError("the trace has no jobs")
    return squared(shared, cell)


def slow(folder: str, cell: Cell) -> dict[str, Any]:
    """Leaves its process id in the folder, and takes a while."""
    (Path(folder) / f"{cell.seed}.{os.getpid()}").touch()
    time.sleep(0.3)
    return squared(0, cell)


def made(count: int) -> list[Cell]:
    return [Cell("t", "c", "drf", seed, f"{seed:032x}") for seed in range(count)]


def slow_with(cell: Cell, folder: str) -> dict[str, Any]:
    """`slow` with its arguments as on a Dask cluster."""
    return slow(folder, cell)


def failing_with(cell: Cell, shared: int) -> dict[str, Any]:
    """`failing` with its arguments as on a Dask cluster."""
    return failing(shared, cell)


def metrics_of(waiting: dict[str, float], queues: dict[str, float] | None = None, **others: Any) -> dict[str, Any]:
    """Metrics of a replay with so many seconds of mean waiting time per size class, ten jobs in each."""
    by_size = {name: {"count": 10, "mean": value} for name, value in waiting.items()}
    by_queue = {name: {"count": 10, "mean": value} for name, value in (queues or {}).items()}
    mean = sum(waiting.values()) / len(waiting)
    found = {
        "jobs": {"submitted": 10 * len(waiting), "never_started": 0, "not_completed": 0},
        "size_by": "gpus",
        "waiting": {"all": {"mean": mean}, "sizes": by_size, "queues": by_queue},
        "completion": {"all": {"mean": mean + 60}, "sizes": by_size},
        "resources": {"nvidia.com/gpu": {"allocation": 0.5, "capacity": 8.0}},
        "fairness": {"resource": "nvidia.com/gpu", "jain": {"finish_time": 1.0}},
        "evictions": {"evictions": 0, "lost_gpu_hours": 0.0},
    }
    return {**found, **others}


def failing_replay(inputs: object, cell: Cell) -> dict[str, Any]:
    """A replay that fails with seed 2."""
    if cell.seed == 2:
        raise ValueError("seed 2 fails")
    return {"metrics": metrics_of({"1": 10.0})}


def finished() -> SweepResult:
    """A sweep with two clusters, a configuration with a hostile name, and a cell that failed."""
    cells = [Cell("jobs", "8 nodes", name, seed, f"{name}-{seed}") for name in ("fifo", EVIL) for seed in (1, 2)]
    cells.append(Cell("jobs", "9 nodes", EVIL, 1, "other"))
    results = {
        "fifo-1": {"metrics": metrics_of({"1": 10})}, "fifo-2": {"metrics": metrics_of({"1": 20})},
        f"{EVIL}-1": {"metrics": metrics_of({"1": 5}, warnings=["a <b>"])},
        f"{EVIL}-2": {"metrics": metrics_of({"1": 16}, warnings=["a <b>"])},
    }  # fmt: skip
    return SweepResult(cells, results, {"other": Failure("out of\nmemory")}, 0)
