"""The files of a finished sweep: the page and the result table. The same results give the same bytes.

The page has charts of each trace, the best configurations marked with a sign, and the reasons in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from muster.model.markup import escape
from muster.sim.replay.charts import Axis, bar_chart, bar_rows, figure, spread
from muster.sim.report.elements import html_table, table
from muster.sim.report.frame import Section, document, section
from muster.sim.report.summary import figures, warning_list
from muster.sim.sweep.cells import SweepResult
from muster.sim.sweep.comparison import COMPARED, Best, Comparison, Contender, Figure
from muster.sim.sweep.folder import ResultFolder, write_atomically
from muster.sim.sweep.reasons import explain, side_effects, with_spread
from muster.sim.sweep.result_table import Row, csv_table, parquet_table

__all__ = ["BEST", "WITHIN_SPREAD", "mark", "page", "warnings_of", "write_report"]

BEST, WITHIN_SPREAD = "★", "☆"
CHART = (560.0, 250.0)
MARKERS_ABOVE_1 = 1.08
_SIDE = (
    Figure("evictions", "evictions", "fewer"),
    Figure("lost_gpu_hours", "lost GPU-hours", "fewer"),
    Figure("fragmentation_amount", "fragmentation", "lower", "%"),
    Figure("makespan", "makespan", "shorter", "s"),
)


def page(
    title: str, rows: Sequence[Row], comparisons: Sequence[Comparison], warnings: Sequence[str],
    origin: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """Returns the page. `origin`: rows that say how it was made."""
    failed = [row for row in rows if row["status"] == "failed"]
    by_trace = enumerate(_by_trace(comparisons).items(), start=1)
    parts = [
        section("Warnings", warning_list(warnings)),
        section("Cells that failed", _failed(failed) if failed else ""),
        section("Best configurations", _overview(comparisons) if comparisons else ""),
        *(Section(f"trace-{i}", trace, _trace(found)) for i, (trace, found) in by_trace),
        section("All cells", _all(rows)),
    ]
    lead = f'{_counts(rows, len(failed))}<p class="soft">{escape(_legend())}</p>'
    return document(title, parts, "sweep", lead=lead, origin=origin)


def mark(best: Best) -> str:
    """Returns the sign of a best configuration: filled if the difference is clear or its spread unknown."""
    return WITHIN_SPREAD if best.clear is False else BEST


def _legend() -> str:
    return (
        f"{BEST} best configuration on this trace and cluster. {WITHIN_SPREAD} best mean, but the difference to the "
        "runner-up is not larger than its spread over the seeds. ± is the standard deviation over the seeds. The line "
        "on a bar goes from the lowest to the highest seed."
    )


def _counts(rows: Sequence[Row], failed: int) -> str:
    found = [(f"{len(rows):,}", "cells", False)]
    for name, label in (("configuration", "configurations"), ("trace", "traces"), ("cluster", "clusters")):
        found.append((f"{len({row[name] for row in rows}):,}", label, False))
    found += [(f"{failed:,}", "failed", True)] if failed else []
    return figures(found)


def _failed(rows: Sequence[Row]) -> str:
    head = ("trace", "cluster", "configuration", "seed", "message")
    cells = [["–" if row[name] is None else str(row[name]) for name in head] for row in rows]
    return table(head, cells, "Cells that failed")


def _overview(comparisons: Sequence[Comparison]) -> str:
    """Returns a table of the best configuration by each figure, for each trace and cluster."""
    rows = []
    for one in comparisons:
        by_column = {best.figure.column: best for best in one.best}
        cells = []
        for what in COMPARED:
            best = by_column.get(what.column)
            if best is None:
                cells.append("–")
            elif best.runner_up is None and len(best.best) > 1:
                cells.append(f"all equal: {with_spread(what, best.best[0])}")
            else:
                names = ", ".join(contender.configuration for contender in best.best)
                cells.append(f"{mark(best)} {names}: {with_spread(what, best.best[0])}")
        rows.append([one.trace, one.cluster, *cells])
    return table(("trace", "cluster", *(what.name for what in COMPARED)), rows, "The best configuration by each figure")


def _by_trace(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    found: dict[str, list[Comparison]] = {}
    for one in comparisons:
        found.setdefault(one.trace, []).append(one)
    return found


def _trace(found: Sequence[Comparison]) -> str:
    parts = [f'<div class="charts">{"".join(_chart(one, found) for one in COMPARED)}</div>']
    for comparison in found:
        parts.append(f"<h3>{escape(comparison.cluster)}</h3>")
        parts.append(_marked_table(comparison))
        parts += [_why(best, comparison) for best in comparison.best]
        besides = side_effects(comparison)
        if besides:
            parts.append(f"<p><b>Other differences</b> {escape('; '.join(besides))}.</p>")
        for name in comparison.incomplete:
            parts.append(f'<p class="warning">{escape(name)} is not compared here: a cell failed.</p>')
    return "\n".join(part for part in parts if part)


def _chart(one: Figure, found: Sequence[Comparison]) -> str:
    names = dict.fromkeys(contender.configuration for comparison in found for contender in comparison.contenders)
    groups = [comparison.cluster for comparison in found]
    series = []
    for i, name in enumerate(names):
        groups_of_seeds: list[list[float]] = []
        for comparison in found:
            ran = next((c for c in comparison.contenders if c.configuration == name), None)
            groups_of_seeds.append([] if ran is None else ran.values(one.column))
        series.append(spread(name, groups_of_seeds, style=i))
    values = [value for line in series for value in line.heights() if math.isfinite(value)]
    if not values:
        return ""
    # The markers of bars near 1 are above it.
    axis = Axis(one.name, one.unit, high=MARKERS_ABOVE_1 if not one.lower_is_better and max(values) > 0.9 else None)
    better = f"{one.better} is better"
    svg = bar_chart(one.name, groups, series, axis, x_label="cluster", size=CHART)
    return figure(one.name[:1].upper() + one.name[1:], svg, *bar_rows(groups, series, axis), note=better)


def _marked_table(comparison: Comparison) -> str:
    columns = (*COMPARED, *(one for one in _SIDE if any(_known(c, one) for c in comparison.contenders)))
    marks: dict[tuple[str, str], str] = {}
    for best in comparison.best:
        if best.runner_up is not None:
            marks |= {(best.figure.column, one.configuration): mark(best) for one in best.best}
    rows = []
    for contender in comparison.contenders:
        cells = []
        for one in columns:
            sign = marks.get((one.column, contender.configuration), "")
            label = f'<span role="img" aria-label="best">{sign}</span> ' if sign else ""
            cells.append(f'<td class="n{" best" if sign else ""}">{label}{escape(with_spread(one, contender))}</td>')
        rows.append(f"<td>{escape(contender.configuration)}</td>{''.join(cells)}")
    head = ("configuration", *(one.name for one in columns))
    return html_table(head, rows, f"Figures on {comparison.cluster}")


def _known(contender: Contender, one: Figure) -> bool:
    return math.isfinite(contender.mean(one.column))


def _why(best: Best, comparison: Comparison) -> str:
    sentences = escape(" ".join(explain(best, comparison)))
    sign = f"{mark(best)} " if best.runner_up is not None else ""
    return f"<p><b>{sign}{escape(best.figure.name[:1].upper() + best.figure.name[1:])}</b> {sentences}</p>"


def _all(rows: Sequence[Row]) -> str:
    head = ("trace", "cluster", "configuration", "seed", *(one.name for one in COMPARED), "jobs", "not completed")
    cells = [
        [
            row["trace"], row["cluster"], row["configuration"], "–" if row["seed"] is None else str(row["seed"]),
            *("–" if row[one.column] is None else one.text(float(row[one.column])) for one in COMPARED),
            *("–" if row[name] is None else f"{row[name]:,}" for name in ("jobs", "not_completed")),
        ]
        for row in rows
    ]  # fmt: skip
    return f"<details><summary>{len(rows):,} cells</summary>{table(head, cells, 'All cells')}</details>"


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
