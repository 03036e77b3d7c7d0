"""Runs the cells of a sweep that have no result yet, and writes each result as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from muster.sim.sweep.cell import Cell
from muster.sim.sweep.folder import ResultFolder
from muster.sim.sweep.processes import Failure, Outcome

__all__ = ["Execute", "Progress", "SweepResult", "run_sweep"]

Execute = Callable[[Sequence[Cell]], Iterator[Outcome[Cell]]]
"""Runs cells and yields their outcomes in any order."""


class Progress(AbstractContextManager["Progress"], Protocol):
    """Shows how far a sweep is."""

    def begin(self, total: int, resumed: int) -> None: ...
    def finished(self, failed: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The results of all cells in the order of the grid."""

    cells: Sequence[Cell]
    results: dict[str, dict[str, Any]]
    """Key of a cell → its result."""
    failures: dict[str, Failure]
    resumed: int
    """Cells whose results were there before."""


def run_sweep(cells: Sequence[Cell], folder: ResultFolder, execute: Execute, progress: Progress) -> SweepResult:
    """Runs each cell without a result once; cells of equal keys share their result."""
    by_key = {cell.key: cell for cell in cells}
    results = {key: found for key in by_key if (found := folder.read(key)) is not None}
    resumed = sum(1 for cell in cells if cell.key in results)
    failures: dict[str, Failure] = {}
    missing = [cell for key, cell in by_key.items() if key not in results]
    with progress:
        progress.begin(len(by_key), len(by_key) - len(missing))
        for outcome in execute(missing) if missing else ():
            key = outcome.task.key
            if isinstance(outcome.result, Failure):
                failures[key] = outcome.result
            else:
                results[key] = folder.write(key, outcome.result)
            progress.finished(isinstance(outcome.result, Failure))
    return SweepResult(cells, results, failures, resumed)
