"""A chart in a page with its numbers; CDFs and long series as few points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from muster.model.markup import escape
from muster.sim.replay.charts.axes import Axis, scale
from muster.sim.replay.charts.frame import Series, floats
from muster.sim.report.elements import table

MAX_POINTS = 240  # of a line
ABOUT_ROWS = 16  # of the table below a chart
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)  # in the table below a CDF


def figure(title: str, svg: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Returns a chart with its title, a note, and a table of its numbers that the reader can open."""
    small = f'<p class="soft">{escape(note)}</p>' if note else ""
    numbers = f"<details><summary>Numbers</summary>{table(head, rows, title)}</details>" if rows else ""
    return f'<figure class="chart"><figcaption>{escape(title)}</figcaption>{small}{svg}{numbers}</figure>'


def line_rows(series: Sequence[Series], x: Axis, y: Axis) -> tuple[list[str], list[list[str]]]:
    """Returns the table of a chart of lines or bands: head and rows, at about `ABOUT_ROWS` places of the x axis.

    The value of a line is that of its last point at or before the place.
    """
    head = [x.label, *(s.name for s in series)]
    places = np.unique(floats([v for s in series for v in s.x if math.isfinite(v)]))
    if not len(places):
        return head, []
    if len(places) > ABOUT_ROWS:
        places = floats([v for v, _ in scale(x, places.tolist(), 0.0, 1.0).ticks()] + [float(places[-1])])
    rows = [[x.text(at), *(_value(s, at, y) for s in series)] for at in np.unique(places).tolist()]
    return head, rows


def _value(one: Series, at: float, y: Axis) -> str:
    before = np.flatnonzero(floats(one.x) <= at)
    if not len(before):
        return "–"
    i = int(before[-1])
    text = y.text(float(one.y[i]))
    if one.low is not None and one.high is not None and math.isfinite(one.low[i]):
        text += f" ({y.text(float(one.low[i]))} to {y.text(float(one.high[i]))})"
    return text


def cdf(name: str, values: Sequence[float], of: int | None = None, style: int = -1) -> Series:
    """Returns the distribution of values as a line for `line_chart(steps=True)`: the share of values up to x.

    `of`: the number that is the whole, if not every one has a value; the line then ends below 1. nan is not a value.
    """
    found = np.sort(floats(values)[np.isfinite(floats(values))])
    whole = max(len(found) if of is None else of, 1)
    if not len(found):
        return Series(name, [], [], style=style)
    ranks = np.unique(np.linspace(0, len(found) - 1, min(MAX_POINTS, len(found))).round().astype(np.int64))
    # The last of equal values has the share of all of them.
    ranks = np.unique(np.searchsorted(found, found[ranks], side="right") - 1)
    return Series(name, found[ranks].tolist(), ((ranks + 1) / whole).tolist(), style=style)


def cdf_rows(series: Sequence[Series], x: Axis) -> tuple[list[str], list[list[str]]]:
    """Returns the table of a chart of CDFs: for each share the smallest value that so many do not exceed."""
    head = ["share", *(s.name for s in series)]
    rows = []
    for share in SHARES:
        cells = []
        for one in series:
            reached = np.flatnonzero(floats(one.y) >= share - 1e-12)
            cells.append(x.text(float(one.x[reached[0]])) if len(reached) else "–")
        rows.append([Axis("", "%").text(share), *cells])
    return head, rows


def thin(x: Sequence[float], y: Sequence[float], most: int = MAX_POINTS) -> tuple[list[float], list[float]]:
    """Returns at most so many points: each is the mean of neighbouring values, at the x of the first of them.

    For values that are means over equal intervals the result is the means over longer intervals. nan is left out.
    """
    xs, ys = floats(x), floats(y)
    if len(xs) <= most:
        return xs.tolist(), ys.tolist()
    size = -(-len(xs) // most)
    starts = np.arange(0, len(xs), size)
    good = np.isfinite(ys)
    counts = np.add.reduceat(good.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(good, ys, 0.0), starts)
    means = np.divide(sums, counts, out=np.full(len(starts), math.nan), where=counts > 0)
    return xs[starts].tolist(), means.tolist()


def spread(name: str, values: Sequence[Sequence[float]], style: int = -1) -> Series:
    """Returns one bar per group: the mean of the group's values, and the range from the lowest to the highest.

    A group with one value has no range. nan is left out.
    """
    kept = [[v for v in group if math.isfinite(v)] for group in values]
    several = [len(group) > 1 for group in kept]
    means = [math.fsum(group) / len(group) if group else math.nan for group in kept]
    low = [min(group) if many else math.nan for group, many in zip(kept, several, strict=True)]
    high = [max(group) if many else math.nan for group, many in zip(kept, several, strict=True)]
    return Series(name, range(len(kept)), means, low, high, style)


def bar_rows(groups: Sequence[str], series: Sequence[Series], y: Axis) -> tuple[list[str], list[list[str]]]:
    """Returns the table of a chart of bars: a row per group."""
    head = ["", *(s.name for s in series)]
    numbered = [Series(s.name, range(len(s.y)), s.y, s.low, s.high) for s in series]
    return head, [[group, *(_value(s, i, y) for s in numbered)] for i, group in enumerate(groups)]
