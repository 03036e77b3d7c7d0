"""Writes the files of a finished sweep: the result table and the page. The same results give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from muster.sim.sweep.comparison import Comparison
from muster.sim.sweep.folder import ResultFolder, write_atomically
from muster.sim.sweep.page import page
from muster.sim.sweep.run import SweepResult
from muster.sim.sweep.table import Row, csv_table, parquet_table

__all__ = ["warnings_of", "write_report"]

MAX_WARNINGS = 50


def write_report(
    folder: ResultFolder, title: str, done: SweepResult, rows: Sequence[Row], comparisons: Sequence[Comparison],
    origin: Sequence[tuple[str, str]] = (),
) -> None:  # fmt: skip
    """Writes results.csv, results.parquet (with the extra `replay`) and sweep.html."""
    write_atomically(folder.path / "results.csv", csv_table(rows))
    parquet = parquet_table(rows)
    if parquet is not None:
        write_atomically(folder.path / "results.parquet", parquet)
    text = page(title, rows, comparisons, warnings_of(done), origin)
    write_atomically(folder.path / "sweep.html", text.encode())


def warnings_of(done: SweepResult) -> list[str]:
    """Returns the warnings of the replays, each with the first cell that has it and the number of the others."""
    by_text: dict[str, list[str]] = {}
    for cell in done.cells:
        for text in done.results.get(cell.key, {}).get("metrics", {}).get("warnings", ()):
            by_text.setdefault(str(text), []).append(str(cell))
    more = {text: f" and {len(cells) - 1} more" if len(cells) > 1 else "" for text, cells in by_text.items()}
    lines = [f"{cells[0]}{more[text]}: {text}" for text, cells in by_text.items()]
    hidden = len(lines) - MAX_WARNINGS
    return [*lines[:MAX_WARNINGS], f"… and {hidden} more warnings"] if hidden > 0 else lines
