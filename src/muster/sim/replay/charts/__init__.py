"""Charts as SVG text for a page with `report.css`: no script, no library, the same bytes for the same values.

    x, y = Axis("waiting time", "s", log=True), Axis("share of jobs", "%", high=1.0)
    lines = [cdf(name, values) for name, values in found.items()]
    figure("Waiting time", line_chart("Waiting time", lines, x, y, steps=True), *cdf_rows(lines, x))

Each chart has a title and a description for screen readers. Every text is escaped.
"""

from muster.sim.replay.charts.axes import Axis, duration, number
from muster.sim.replay.charts.chart_types import SIZE, SMALL, bar_chart, heat_map, line_chart, stacked_chart
from muster.sim.replay.charts.figure import bar_rows, cdf, cdf_rows, figure, line_rows, spread, thin
from muster.sim.replay.charts.frame import Series, key

__all__ = [
    "Axis", "Series",
    "line_chart", "stacked_chart", "bar_chart", "heat_map",
    "cdf", "thin", "spread",
    "figure", "line_rows", "cdf_rows", "bar_rows", "key",
    "duration", "number", "SIZE", "SMALL",
]  # fmt: skip
