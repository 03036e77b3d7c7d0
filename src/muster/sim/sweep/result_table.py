"""The result table of a sweep: one row for each cell, as CSV and Parquet, and the plain values of `-o json`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from muster.sim.sweep.cells import SweepResult
from muster.sim.sweep.comparison import COLUMNS, Best, Comparison, main_figures
from muster.sim.sweep.reasons import explain, side_effects

__all__ = ["HEAD", "csv_table", "parquet_table", "plain_result", "rows_of"]

HEAD = ("trace", "cluster", "configuration", "seed", "status", "message", *COLUMNS)
TEXTS = ("trace", "cluster", "configuration", "status", "message", "resource")
DIGITS = 6
Row = dict[str, Any]


def rows_of(sweep: SweepResult) -> list[Row]:
    """Returns a row for each cell, in the order of the grid."""
    rows = []
    for cell in sweep.cells:
        done = sweep.results.get(cell.key)
        failure = sweep.failures.get(cell.key)
        row: Row = {
            "trace": cell.trace, "cluster": cell.cluster, "configuration": cell.configuration, "seed": cell.seed,
            "status": "failed" if done is None else "done",
            "message": "" if failure is None else " ".join(failure.message.split()),
        }  # fmt: skip
        rows.append({**row, **(dict.fromkeys(COLUMNS) if done is None else main_figures(done["metrics"]))})
    return rows


def csv_table(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(["" if row[name] is None else row[name] for name in HEAD] for row in rows)
    return text.getvalue().encode()


def parquet_table(rows: Sequence[Row]) -> bytes | None:
    """Returns the table as a Parquet file; None without pyarrow (the extra `replay`)."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        return None
    columns = {
        name: pa.array([row[name] for row in rows], pa.string() if name in TEXTS else _number_type(pa, name))
        for name in HEAD
    }
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def _number_type(pa: Any, name: str) -> Any:
    return pa.int64() if name in ("seed", "jobs", "never_started", "not_completed", "evictions", "node_losses",
                                  "cycles") else pa.float64()  # fmt: skip


def plain_result(rows: Sequence[Row], comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Returns the value of `muster sweep -o json`."""
    return {
        "cells": list(rows),
        "comparisons": [
            {
                "trace": one.trace,
                "cluster": one.cluster,
                "seeds": [seed for seed in one.seeds if seed is not None],
                "incomplete": list(one.incomplete),
                "best": {best.figure.column: _plain_best(best, one) for best in one.best},
                "side_effects": side_effects(one),
            }
            for one in comparisons
        ],
        "failed": sum(1 for row in rows if row["status"] == "failed"),
    }


def _plain_best(best: Best, comparison: Comparison) -> dict[str, Any]:
    figure = best.figure
    return {
        "configurations": [one.configuration for one in best.best],
        "mean": _rounded(best.best[0].mean(figure.column)),
        "spread": _rounded(best.best[0].spread(figure.column)),
        "runner_up": None if best.runner_up is None else best.runner_up.configuration,
        "difference": _rounded(best.difference),
        "difference_spread": _rounded(best.difference_spread),
        "clear": best.clear,
        "why": explain(best, comparison),
    }


def _rounded(value: float) -> float | None:
    return round(value, DIGITS) + 0.0 if math.isfinite(value) else None
