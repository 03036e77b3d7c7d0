"""Charts of lines and of stacked bands over an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np

from muster.sim.replay.charts.axes import Axis, Scale
from muster.sim.replay.charts.frame import (
    Frame,
    Series,
    dash,
    described,
    floats,
    frame,
    marker,
    path,
    sample,
    shade,
)
from muster.sim.report.elements import hue

SIZE = (760.0, 330.0)
SMALL = (400.0, 230.0)
MARKERS = 5  # on each line


def line_chart(
    title: str, series: Sequence[Series], x: Axis, y: Axis, *, about: str = "", steps: bool = False,
    size: tuple[float, float] = SIZE, key: bool = True,
) -> str:  # fmt: skip
    """Draws lines, with their names at the right and the range of each from `low` to `high` as a band.

    `steps`: a value holds until the next x, as in a CDF.
    """
    values = (chain.from_iterable(s.x for s in series), chain.from_iterable(s.heights() for s in series))
    drawn = frame(title, about or described(series, y), (x, y), values, size, len(series) if key else 0)
    drawn.axes()
    ends = []
    for i, one in enumerate(series):
        style = i if one.style < 0 else one.style
        points = _points(drawn, one.x, one.y)
        if not np.isfinite(points[1]).any():
            continue
        _range(drawn, one, style)
        line = _stairs(points) if steps else points
        drawn.parts.append(f'<path class="line {hue(style)}"{dash(style)} d="{path(*line)}"/>')
        drawn.parts += [marker(style, px_x, px_y) for px_x, px_y in _marked(points, i, len(series))]
        ends.append((points[1][np.isfinite(points[1])][-1], one.name, sample(style)))
    if not ends:
        drawn.empty()
    elif key:
        drawn.key(ends)
    return drawn.svg()


def stacked_chart(
    title: str, series: Sequence[Series], x: Axis, y: Axis, *, over: Sequence[Series] = (), about: str = "",
    size: tuple[float, float] = SIZE,
) -> str:  # fmt: skip
    """Draws bands on top of each other, the first one lowest, and the lines of `over` in front of them.

    All bands have the x of the first one; nan counts as zero.
    """
    xs = floats(series[0].x) if series else floats(())
    tops = (
        np.cumsum([np.nan_to_num(floats(s.y), posinf=0.0, neginf=0.0) for s in series], axis=0)
        if series
        else np.zeros((0, 0))
    )
    highest = chain(tops[-1].tolist() if series else (), chain.from_iterable(s.y for s in over))
    values = (chain(xs.tolist(), chain.from_iterable(s.x for s in over)), highest)
    about = about or described([*series, *over], y)
    drawn = frame(title, about, (x, y), values, size, len(series) + len(over))
    drawn.axes()
    below = np.zeros(len(xs))
    names: list[tuple[float, str, str]] = []
    for i, one in enumerate(series if len(xs) else ()):
        style = i if one.style < 0 else one.style
        fill = f'class="{shade(i)} {hue(style)}"'
        edge = _points(drawn, [*xs, *xs[::-1]], [*tops[i], *below[::-1]])
        drawn.parts.append(f'<path {fill} d="{path(*edge)}Z"/>')
        middle = drawn.y.at(float(tops[i][-1] + below[-1]) / 2)
        names.append((middle, one.name, f'<rect {fill} x="-10" y="-6" width="20" height="12"/>'))
        below = tops[i]
    for i, one in enumerate(over):
        style = i if one.style < 0 else one.style
        points = _points(drawn, one.x, one.y)
        if not np.isfinite(points[1]).any():
            continue
        drawn.parts.append(f'<path class="over"{dash(style)} d="{path(*points)}"/>')
        symbol = f'<path class="over"{dash(style)} d="M-13 0H13"/>'
        names.append((points[1][np.isfinite(points[1])][-1], one.name, symbol))
    if names:
        drawn.key(names[::-1], leads=True)  # of bands at one height the upper one is first
    else:
        drawn.empty()
    return drawn.svg()


Points = tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]


def _points(drawn: Frame, xs: Sequence[float], ys: Sequence[float]) -> Points:
    return floats([_at(drawn.x, x) for x in xs]), floats([_at(drawn.y, y) for y in ys])


def _at(scale: Scale, value: float) -> float:
    return scale.at(float(value)) if math.isfinite(value) else math.nan


def _stairs(points: Points) -> Points:
    return np.repeat(points[0], 2)[1:], np.repeat(points[1], 2)[:-1]


def _range(drawn: Frame, one: Series, style: int) -> None:
    """Draws the band from `low` to `high`; x without a finite range are left out."""
    if one.low is None or one.high is None:
        return
    xs, low = _points(drawn, one.x, one.low)
    high = _points(drawn, one.x, one.high)[1]
    good = np.isfinite(low) & np.isfinite(high)
    if good.any():
        edge = path([*xs[good], *xs[good][::-1]], [*high[good], *low[good][::-1]])
        drawn.parts.append(f'<path class="range {hue(style)}" d="{edge}Z"/>')


def _marked(points: Points, position: int, of: int) -> list[tuple[float, float]]:
    """Returns where a line has its markers: at equal distances in x, shifted from line to line."""
    good = np.isfinite(points[0]) & np.isfinite(points[1])
    xs, ys = points[0][good], points[1][good]
    wanted = np.linspace(xs[0], xs[-1], MARKERS + 1)[:-1] + (position + 0.5) / of * (xs[-1] - xs[0]) / MARKERS
    nearest = np.unique(np.abs(xs[None, :] - wanted[:, None]).argmin(axis=1)) if len(xs) > MARKERS else range(len(xs))
    return [(float(xs[i]), float(ys[i])) for i in nearest]
