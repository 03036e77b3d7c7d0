"""The page with the study's plots, made from a record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from results import AGREED, TOLERANCE

from muster.sim.replay.charts import Axis, Series, bar_chart, bar_rows, figure, line_chart, line_rows
from muster.sim.report.elements import table
from muster.sim.report.frame import Section, document, section

ARRIVED = Axis("arrived demand, % of all GPUs", high=130.0)
PLOTS = (
    ("alloc", "Allocated GPUs", Axis("allocated, % of all GPUs")),
    ("frag", "Fragmentation amount", Axis("fragments, % of all GPUs")),
    ("fragratio", "Fragmentation ratio", Axis("fragments, % of the idle GPUs")),
)
TITLE = "The FGD study on muster's engine"


def page(record: dict[str, Any]) -> str:
    cells = record["cells"]
    parts: list[str | Section] = [_bars(cells)]
    for workload, group in groupby(cells, key=lambda cell: cell["workload"]):
        parts.append(section(f"Workload {workload}", "".join(_workload(workload, list(group)))))
    return document(TITLE, parts, "study", lead=_about(record))


def _about(record: dict[str, Any]) -> str:
    return (
        "<p>Pods arrive at the nodes one by one and never leave; a pod that does not fit is dropped "
        f"(Weng et al., USENIX ATC 2023). {record['seeds']} seeds for each line; the band is their range. "
        f"{record['outside']} of {record['compared']} figures differ from the published mean by more than "
        f"{TOLERANCE} percentage points; the largest difference is {record['largest_difference']}. "
        f"{record['cpu_seconds_per_run']} CPU-seconds per run on {record['machine']}.</p>"
    )


def _bars(cells: list[dict[str, Any]]) -> Section:
    """The final allocation of all workloads, with the standard deviation over the seeds."""
    workloads = list(dict.fromkeys(cell["workload"] for cell in cells))
    series = []
    for policy in dict.fromkeys(cell["policy"] for cell in cells):
        found = {cell["workload"]: cell["figures"]["alloc_130"] for cell in cells if cell["policy"] == policy}
        mean = [found[w]["mean"] if w in found else float("nan") for w in workloads]
        sd = [found[w]["sd"] if w in found else float("nan") for w in workloads]
        low = [m - s for m, s in zip(mean, sd, strict=True)]
        high = [m + s for m, s in zip(mean, sd, strict=True)]
        series.append(Series(policy, (), mean, low, high))
    axis = Axis("allocated, % of all GPUs", low=75.0)
    drawn = bar_chart("Final allocation", workloads, series, axis, size=(1100.0, 360.0))
    note = "At 130 % arrived demand; mean and standard deviation over the seeds."
    return section("Final allocation", figure("Final allocation", drawn, *bar_rows(workloads, series, axis), note=note))


def _workload(workload: str, cells: list[dict[str, Any]]) -> Iterator[str]:
    for name, title, axis in PLOTS:
        lines = []
        for cell in cells:
            curve, arrived = cell["curves"][name], cell["curves"]["arrived"]
            lines.append(Series(cell["policy"], arrived, curve["mean"], curve["low"], curve["high"]))
        drawn = line_chart(f"{title}, {workload}", lines, ARRIVED, axis)
        yield figure(title, drawn, *line_rows(lines, ARRIVED, axis))
    if any("published" in figures for cell in cells for figures in cell["figures"].values()):
        head = ("policy", *(f"{name} {what}" for name in AGREED for what in ("muster", "published")))
        yield table(head, [_row(cell) for cell in cells])


def _row(cell: dict[str, Any]) -> list[str]:
    row = [cell["policy"]]
    for name in AGREED:
        found = cell["figures"].get(name, {})
        row += [f"{found['mean']:.2f} ± {found['sd']:.2f}" if found else "–", f"{found.get('published', '–')}"]
    return row

