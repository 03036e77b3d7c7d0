"""The runs of the study put together: figures over the seeds, beside the published figures."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from figures import FIGURES, LAST_PERCENT, Floats
from openb import Figures, Workload, read_workload
from runs import Run, run

FIRST_SEED = 42  # the study's ten seeds are 42 to 51
TOLERANCE = 0.6  # percentage points
AGREED = ("alloc_130", "frag_90", "frag_100", "frag_130")
"""The figures that must agree with the published ones: the final allocation, and each fragmentation amount."""
CURVE_STEP = 2  # percent of arrived demand between the points of a curve in the record
Task = tuple[Path, str, str, int]


@dataclass(frozen=True)
class Cell:
    """The runs of one workload and policy."""

    workload: str
    policy: str
    curves: dict[str, Floats]  # figure → seeds × percent
    cpu_seconds: tuple[float, ...]

    def mean(self, figure: str) -> float:
        return float(self._column(figure).mean())

    def sd(self, figure: str) -> float:
        column = self._column(figure)
        return float(column.std(ddof=1)) if len(column) > 1 else 0.0

    def _column(self, figure: str) -> Floats:
        name, _, percent = figure.rpartition("_")
        return self.curves[name][:, int(percent)]

    def differences(self, published: Figures) -> dict[str, float]:
        """Returns by how much the figures that must agree differ from the published ones."""
        return {figure: self.mean(figure) - published[figure][0] for figure in AGREED if figure in published}

    def record(self, published: Figures | None) -> dict[str, Any]:
        """Returns the cell as plain values; only means and spreads over the seeds."""
        percents = range(0, LAST_PERCENT + 1, CURVE_STEP)
        found: dict[str, Any] = {
            "workload": self.workload,
            "policy": self.policy,
            "seeds": len(self.cpu_seconds),
            "cpu_seconds_per_run": round(sum(self.cpu_seconds) / len(self.cpu_seconds), 2),
            "figures": {
                figure: {"mean": round(self.mean(figure), 3), "sd": round(self.sd(figure), 3)}
                | ({"published": published[figure][0]} if published and figure in published else {})
                for figure in (published or dict.fromkeys(AGREED))
            },
            "curves": {"arrived": list(percents)},
        }
        for name in FIGURES:
            part = self.curves[name][:, :: CURVE_STEP]
            low, mean, high = part.min(axis=0), part.mean(axis=0), part.max(axis=0)
            found["curves"][name] = {
                end: [round(float(v), 2) for v in values]
                for end, values in (("low", low), ("mean", mean), ("high", high))
            }
        return found


def run_all(
    folder: Path, workloads: Sequence[str], policies: Sequence[str], seeds: int, processes: int
) -> Iterator[Cell]:
    """Yields the cells, workload by workload, as soon as their runs are finished."""
    tasks = [(folder, w, p, FIRST_SEED + i) for w in workloads for p in policies for i in range(seeds)]
    if processes == 1:
        yield from _cells(map(_run, tasks), tasks, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from _cells(pool.imap(_run, tasks), tasks, seeds)


def _cells(runs: Iterator[Run], tasks: Sequence[Task], seeds: int) -> Iterator[Cell]:
    for at in range(0, len(tasks), seeds):
        found = [next(runs) for _ in range(seeds)]
        curves = {name: np.array([one.curves[name] for one in found]) for name in FIGURES}
        _, workload, policy, _ = tasks[at]
        yield Cell(workload, policy, curves, tuple(one.cpu_seconds for one in found))


def _run(task: Task) -> Run:
    folder, workload, policy, seed = task
    return run(_workload(folder, workload), policy, seed)


@cache
def _workload(folder: Path, name: str) -> Workload:
    return read_workload(folder, name)
