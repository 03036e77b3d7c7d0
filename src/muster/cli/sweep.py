"""`muster sweep`: replays of every combination of configurations, traces, seeds and clusters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TextIO

import click

from muster.cli import options
from muster.cli.answer import plural, row, styled, table, waiting
from muster.cli.help import Command
from muster.model.finding import InputError

if TYPE_CHECKING:
    from muster.sim.sweep.cells import Cell, SweepResult
    from muster.sim.sweep.comparison import Comparison
    from muster.sim.sweep.inputs import Inputs
    from muster.sim.sweep.processes import TaskOutcome

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
MAX_FAILURES = 20
FILE = click.Path(exists=True, dir_okay=False)


@click.command(cls=Command, example="muster sweep grid.yaml --save results")
@click.argument("grid", type=click.Path(), metavar="GRID.yaml")
@click.option("--save", "folder", required=True, type=click.Path(file_okay=False), metavar="DIR",
              help="The folder of the results. Cells that have a result there are not run again.")  # fmt: skip
@options.output("table", "json")
@click.option("--processes", type=click.IntRange(1, 4096), default=None, metavar="N",
              help="Worker processes. Default: one for each core.")  # fmt: skip
@click.option("--dask", "address", metavar="ADDRESS", help="Run on a Dask cluster (tcp://… or tls://…).")
@click.option("--tls-ca", type=FILE, metavar="FILE", help="The CA of a tls:// address.")
@click.option("--tls-cert", type=FILE, metavar="FILE", help="The certificate of the client.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="The key of the client.")
@options.verbosity
def sweep(
    grid: str,
    folder: str,
    form: str,
    processes: int | None,
    address: str | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    verbosity: int,
) -> None:
    """Compare replays of many configurations, traces and clusters.

    Every combination of the configurations, traces, seeds and clusters of a grid is replayed. Writes results.csv and
    sweep.html to the folder (and results.parquet with the extra `replay`). After an interruption, the same command
    continues. The exit code is 1 if a cell failed.
    """
    from muster.cli.answer import console, print_json
    from muster.cli.origin import origin_rows
    from muster.cli.progress import Lines
    from muster.cli.reading import BadInput, print_findings
    from muster.sim.sweep.cells import cells_of, run_sweep
    from muster.sim.sweep.comparison import compare
    from muster.sim.sweep.folder import ResultFolder
    from muster.sim.sweep.grid import read_grid
    from muster.sim.sweep.inputs import read_inputs
    from muster.sim.sweep.page import write_report
    from muster.sim.sweep.result_table import plain_result, rows_of

    tls = {"tls_ca_file": tls_ca, "tls_client_cert": tls_cert, "tls_client_key": tls_key}
    given = {name: value for name, value in tls.items() if value is not None}
    if given and not (address or "").startswith("tls://"):
        raise click.UsageError("--tls-ca, --tls-cert and --tls-key belong to --dask tls://…")
    results = ResultFolder(folder)
    cells: Sequence[Cell] = ()

    def execute(missing: Sequence[Cell]) -> Iterator[TaskOutcome[Cell]]:
        return _on_dask(address, missing, inputs, given) if address else _here(missing, inputs, processes)

    try:
        read = read_grid(grid)
        inputs = read_inputs(read)
        print_findings(inputs.findings)
        cells = list(cells_of(read, inputs))
        with results.locked():
            done = run_sweep(cells, results, execute, CellsDone() if sys.stderr.isatty() else Lines(sys.stderr))
            rows, comparisons = rows_of(done), compare(done.cells, done.results)
            write_report(results, os.path.basename(grid), done, rows, comparisons, origin_rows([grid]))
    except InputError as fault:
        print_findings(fault.findings)
        raise BadInput(f"muster: {fault.message}") from None
    except KeyboardInterrupt:
        there = sum(1 for cell in cells if results.read(cell.key) is not None)
        click.echo(f"interrupted: {there:,} of {plural(len(cells), 'cell')} have results in {folder}; "
                   "the same command continues", err=True)  # fmt: skip
        sys.exit(INTERRUPTED)
    _print_notes(done, results, verbosity)
    if form == "json":
        print_json(plain_result(rows, comparisons))
    else:
        _show(console(), comparisons)
        console().print(styled(_headline(done, folder), "bold"))
    if done.failures:
        raise click.exceptions.Exit(1)


class CellsDone(AbstractContextManager["CellsDone"]):
    """Shows the cells that are done, those that failed and the remaining time on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._context = waiting("sweeping", "cells", stream)
        self._failed = 0

    def __enter__(self) -> CellsDone:
        self._shown = self._context.__enter__()
        return self

    def __exit__(self, *fault: Any) -> None:
        self._context.__exit__(*fault)

    def begin(self, total: int, resumed: int) -> None:
        self._shown.update(resumed, total)

    def finished(self, failed: bool) -> None:
        self._failed += failed
        note = f"{self._failed} failed" if self._failed else ""
        self._shown.update(self._shown.done + 1, self._shown.total, note)


def _here(missing: Sequence[Cell], inputs: Inputs, processes: int | None) -> Iterator[TaskOutcome[Cell]]:
    from muster.sim.sweep.cells import run_cell
    from muster.sim.sweep.processes import run_in_processes

    return run_in_processes(missing, inputs, run_cell, processes or len(os.sched_getaffinity(0)))


def _on_dask(
    address: str, missing: Sequence[Cell], inputs: Inputs, tls: dict[str, str]
) -> Iterator[TaskOutcome[Cell]]:
    from muster.sim.sweep.cells import run_cell_with
    from muster.sim.sweep.dask_cluster import run_on_dask

    parts: dict[str, object] = {f"options-{inputs.options_digest}": dict(inputs.options)}
    tasks = []
    for cell in missing:
        needed = (
            inputs.configurations[cell.configuration], inputs.traces[cell.trace], inputs.clusters[cell.cluster],
        )  # fmt: skip
        parts |= {one.digest: one for one in needed}
        tasks.append((cell, cell.key, (*(one.digest for one in needed), f"options-{inputs.options_digest}")))
    return run_on_dask(address, tasks, parts, run_cell_with, tls)


def _print_notes(done: SweepResult, results: Any, verbosity: int) -> None:
    """Prints on stderr which cells failed, and which files were no results."""
    from muster.cli import TRACEBACK_VERBOSITY

    for file in results.unreadable:
        click.echo(f"warning: {file} was no result of its cell; the cell was run again", err=True)
    shown: dict[str, Cell] = {cell.key: cell for cell in done.cells if cell.key in done.failures}
    for cell in list(shown.values())[:MAX_FAILURES]:
        failure = done.failures[cell.key]
        click.echo(f"failed: {cell}: {failure.message}", err=True)
        if verbosity >= TRACEBACK_VERBOSITY:
            click.echo(failure.trace, err=True, nl=False)
    if len(shown) > MAX_FAILURES:
        click.echo(f"… and {len(shown) - MAX_FAILURES} more; results.csv has all", err=True)


def _headline(done: SweepResult, folder: str) -> str:
    failed = sum(1 for cell in done.cells if cell.key in done.failures)
    text = f"{plural(len(done.cells), 'cell')}: {len(done.cells) - failed:,} with results, {failed:,} failed"
    return f"{text}; see {os.path.join(folder, 'sweep.html')}"


def _show(console: Any, comparisons: Sequence[Comparison]) -> None:
    from muster.sim.sweep.comparison import COMPARED
    from muster.sim.sweep.page import mark
    from muster.sim.sweep.reasons import explain, with_spread

    for one in comparisons:
        marks = {
            (best.figure.column, contender.configuration): mark(best)
            for best in one.best if best.runner_up is not None for contender in best.best
        }  # fmt: skip
        made = table(f"{one.trace}, {one.cluster}", "configuration", *(figure.name for figure in COMPARED))
        for contender in one.contenders:
            cells = []
            for figure in COMPARED:
                sign = marks.get((figure.column, contender.configuration), "")
                cells.append(f"{with_spread(figure, contender)} {sign}".rstrip())
            row(made, contender.configuration, *cells)
        if one.contenders:
            console.print(made)
        for best in one.best[:1]:
            for sentence in explain(best, one):
                console.print(f" {sentence}")
        for name in one.incomplete:
            console.print(f" {name} is not compared: a cell failed.")
