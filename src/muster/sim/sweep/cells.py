"""The cells of a grid: what names each, their replays, and the run of those that have no result yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import muster
from muster.cycle.registry import GROUP
from muster.sim.inputs import load_config
from muster.sim.replay.metrics import metrics
from muster.sim.replay.run import ReplayOptions, replay
from muster.sim.sweep.folder import ResultFolder
from muster.sim.sweep.grid import Grid
from muster.sim.sweep.inputs import ClusterInput, ConfigurationInput, Inputs, TraceInput, digest
from muster.sim.sweep.processes import Failure, TaskOutcome

__all__ = [
    "Cell",
    "code_version",
    "cells_of",
    "run_cell",
    "run_cell_with",
    "Execute",
    "Progress",
    "SweepResult",
    "run_sweep",
]


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay of a grid. `seed` is None if no seed changes the trace."""

    trace: str
    cluster: str
    configuration: str
    seed: int | None
    key: str

    def __str__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.configuration}, {self.trace}, {self.cluster}{seed}"


@cache
def code_version() -> str:
    """Returns a text that changes with the code: a result of other code is no result of this one."""
    digest = sha256()
    root = Path(muster.__file__).parent
    for file in sorted(root.rglob("*")):
        if file.suffix in (".py", ".yaml") and not {"cli", "demo", "bench"} & set(file.parts):
            digest.update(f"{file.relative_to(root)}\0".encode())
            digest.update(sha256(file.read_bytes()).digest())
    plugins = sorted(
        {f"{point.dist.name} {point.dist.version}" for point in entry_points(group=GROUP) if point.dist}
    )
    return ", ".join([f"{muster.__version__}+{digest.hexdigest()[:12]}", *plugins])


LAYOUT = 1  # of a result; another layout is another key


def cells_of(grid: Grid, inputs: Inputs) -> Iterator[Cell]:
    """Yields the cells in the order of the grid: traces, clusters, configurations, seeds."""
    for source in grid.traces:
        trace = inputs.traces[source.name]
        for place in grid.clusters:
            cluster = inputs.clusters[place.name]
            for one in grid.configurations:
                configuration = inputs.configurations[one.name]
                for seed in grid.seeds if source.seeded else (None,):
                    key = digest(
                        LAYOUT, code_version(), trace.digest, cluster.digest, configuration.digest,
                        inputs.options_digest, seed,
                    )[:32]  # fmt: skip
                    yield Cell(source.name, place.name, one.name, seed, key)


def run_cell(inputs: Inputs, cell: Cell) -> dict[str, Any]:
    """Runs one cell of these inputs."""
    return run_cell_with(
        cell, inputs.configurations[cell.configuration], inputs.traces[cell.trace], inputs.clusters[cell.cluster],
        dict(inputs.options),
    )  # fmt: skip


def run_cell_with(
    cell: Cell, configuration: ConfigurationInput, trace: TraceInput, cluster: ClusterInput, options: dict[str, Any]
) -> dict[str, Any]:
    """Runs one cell and returns its result in plain values, the same for the same key."""
    loaded = load_config(configuration.text)
    given = ReplayOptions(**options, node_events=cluster.node_events, now=cluster.now, seed=cell.seed)
    done = replay(trace.with_seed(cell.seed), cluster.objects, loaded, given)
    return {"metrics": metrics(done)}


Execute = Callable[[Sequence[Cell]], Iterator[TaskOutcome[Cell]]]
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
