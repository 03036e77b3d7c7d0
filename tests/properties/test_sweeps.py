"""Sweeps over random grids: order, interruptions and other results do not change the table."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes.sweep_cells import metrics_of
from muster.cli.progress import Lines
from muster.sim.sweep.cells import Cell, SweepResult, cells_of, run_sweep
from muster.sim.sweep.comparison import compare
from muster.sim.sweep.folder import ResultFolder
from muster.sim.sweep.grid import ClusterSource, ConfigurationSource, Grid, TraceSource
from muster.sim.sweep.inputs import read_inputs
from muster.sim.sweep.page import write_report
from muster.sim.sweep.processes import TaskOutcome
from muster.sim.sweep.result_table import rows_of
from muster.sim.traces.make import Recipe
from strategies.profiles import examples

FILES = ("results.csv", "results.parquet", "sweep.html")


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Generated traces with and without equal recipes, sizes of a template, and the default configuration."""
    names = [f"c{i}" for i in range(draw(st.integers(1, 3)))]
    traces = [
        TraceSource(f"t{i}", 1, make=Recipe(jobs=draw(st.integers(1, 3)), hours=1.0))
        for i in range(draw(st.integers(1, 3)))
    ]
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True))
    clusters = [
        ClusterSource(f"{n} nodes", 1, template={"allocatable": {"cpu": 8}}, count=n) for n in sizes
    ]  # fmt: skip
    seeds = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True))
    configurations = tuple(ConfigurationSource(name, 1) for name in names)
    return Grid("grid.yaml", configurations, tuple(traces), tuple(seeds), tuple(clusters), (), {})


class Killed(BaseException):
    """The end of a process in the middle of a sweep."""


def executor(order: random.Random, most: int, ran: list[str]) -> Any:
    """Runs cells in a random order, and is killed after so many."""

    def execute(cells: Sequence[Cell]) -> Iterator[TaskOutcome[Cell]]:
        mixed = list(cells)
        order.shuffle(mixed)
        for i, cell in enumerate(mixed):
            if i >= most:
                raise Killed
            ran.append(cell.key)
            value = int(sha256(cell.key.encode()).hexdigest()[:4], 16) / 7
            yield TaskOutcome(cell, {"metrics": metrics_of({"1": value, "2-4": 2 * value})})

    return execute


def swept(cells: Sequence[Cell], path: Path, execute: Any) -> SweepResult:
    folder = ResultFolder(str(path))
    with folder.locked():
        done = run_sweep(cells, folder, execute, Lines(open("/dev/null", "w")))  # noqa: SIM115
        write_report(folder, "grid.yaml", done, rows_of(done), compare(done.cells, done.results))
    return done


@examples(60)
@given(grids(), st.integers(0, 2**32), st.lists(st.integers(0, 8), max_size=3))
def test_interrupted_sweeps_end_with_the_same_bytes_and_run_each_cell_once(
    grid: Grid, seed: int, interruptions: list[int]
) -> None:
    order = random.Random(seed)
    cells = list(cells_of(grid, read_inputs(grid)))
    assert len(cells) == len(grid.configurations) * len(grid.traces) * len(grid.clusters) * len(grid.seeds)
    keys = {cell.key for cell in cells}
    # Configurations of equal content share their results, and so do equal recipes; everything else makes another key.
    recipes = {trace.make.jobs for trace in grid.traces if trace.make is not None}
    assert len(keys) == len(recipes) * len(grid.clusters) * len(grid.seeds)
    with TemporaryDirectory() as whole, TemporaryDirectory() as pieces:
        swept(cells, Path(whole), executor(order, 10**6, []))
        ran: list[str] = []
        for most in [*interruptions, 10**6]:
            try:
                swept(cells, Path(pieces), executor(order, most, ran))
            except Killed:
                continue
        assert sorted(ran) == sorted(keys)
        for name in FILES:
            assert (Path(whole) / name).read_bytes() == (Path(pieces) / name).read_bytes()
