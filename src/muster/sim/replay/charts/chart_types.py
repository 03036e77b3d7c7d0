"""The types of charts: lines, stacked bands, bars with their spread, and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np

from muster.model.markup import escape
from muster.sim.replay.charts.axes import Axis, Scale
from muster.sim.replay.charts.frame import (
    BOTTOM,
    CHARACTER_PX,
    KEY_WIDTH_PX,
    LEFT,
    MAX_NAME_CHARS,
    Frame,
    Series,
    dash,
    described,
    floats,
    frame,
    marker,
    path,
    px,
    sample,
    shade,
    shortened,
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


GAP = 0.25  # of a group's width, between groups
CELL_HEIGHT_PX = 22.0
HEAT_LEFT_PX = 150.0


def bar_chart(
    title: str, groups: Sequence[str], series: Sequence[Series], y: Axis, *, x_label: str = "", about: str = "",
    size: tuple[float, float] = SIZE,
) -> str:  # fmt: skip
    """Draws for each group one bar per series: `y` is the value of each group; the line from `low` to `high` is its
    spread. `x` of the series is not read. Above each bar is the marker of its series, also without colour."""
    heights = chain.from_iterable(s.heights() for s in series)
    ends = (Axis(x_label, low=0.0, high=float(max(len(groups), 1))), y)
    longest = min(max(map(len, groups), default=0), MAX_NAME_CHARS) * CHARACTER_PX
    turned = longest * len(groups) > size[0] - LEFT - KEY_WIDTH_PX  # the names do not fit beside each other
    foot = BOTTOM + (0.6 * longest if turned else 0.0)
    drawn = frame(title, about or described(series, y), ends, ((), heights), size, len(series), foot)
    drawn.axes(groups)
    group_width = (drawn.x.at(1.0) - drawn.x.at(0.0)) if groups else 1.0
    width = group_width * (1 - GAP) / max(len(series), 1)
    for g, group in enumerate(groups):
        left = drawn.x.at(float(g)) + group_width * GAP / 2
        _group_name(drawn, left + group_width * (1 - GAP) / 2, group, turned)
        for i, one in enumerate(series):
            if g < len(one.y) and math.isfinite(one.y[g]):
                _bar(drawn, one, i, g, left + i * width, width, f"{group}, {one.name}")
    names = [(drawn.y.stop + 4, one.name, _sample(i, one)) for i, one in enumerate(series)]
    if names and groups:
        drawn.key(names)
    else:
        drawn.empty()
    return drawn.svg()


def _bar(drawn: Frame, one: Series, position: int, group: int, left: float, width: float, what: str) -> None:
    style = position if one.style < 0 else one.style
    axis, value = drawn.y.axis, float(one.y[group])
    top, foot = drawn.y.at(value), drawn.y.at(max(drawn.y.low, 0.0))
    top, bottom = min(top, foot), max(top, foot)
    tip = f"{what}: {axis.text(value)}"
    middle, above = left + width / 2, top
    spread = ""
    ends = (math.nan, math.nan) if one.low is None or one.high is None else (one.low[group], one.high[group])
    if all(map(math.isfinite, ends)):
        low, high = drawn.y.at(ends[0]), drawn.y.at(ends[1])
        cap = min(width / 4, 6.0)
        caps = "".join(f"M{px(middle - cap)} {px(at)}H{px(middle + cap)}" for at in (low, high))
        spread = f'<path class="whisker" d="M{px(middle)} {px(low)}V{px(high)}{caps}"/>'
        tip += f" ({axis.text(ends[0])} to {axis.text(ends[1])})"
        above = min(top, high)
    box = f'x="{px(left + 1)}" y="{px(top)}" width="{px(max(width - 2, 1))}" height="{px(max(bottom - top, 0.5))}"'
    fill = f'class="{shade(style)} {hue(style)}"'
    drawn.parts.append(f"<rect {fill} {box}><title>{escape(tip)}</title></rect>{spread}")
    drawn.parts.append(marker(style, middle, above - 7))


def _sample(position: int, one: Series) -> str:
    style = position if one.style < 0 else one.style
    fill = f'class="{shade(style)} {hue(style)}"'
    return f'<rect {fill} x="-12" y="-6" width="12" height="12"/>{marker(style, 8)}'


def _group_name(drawn: Frame, x: float, name: str, turned: bool) -> None:
    y = drawn.y.start + 16
    if not turned:
        drawn.text(x, y, shortened(name), "middle")
        return
    place = f'x="{px(x + 4)}" y="{px(y - 4)}" text-anchor="end" transform="rotate(-40 {px(x + 4)} {px(y - 4)})"'
    drawn.parts.append(f'<text class="tick" {place}>{escape(shortened(name))}</text>')


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], axis: Axis, *,
    x_label: str = "", about: str = "", width: float = SIZE[0],
) -> str:  # fmt: skip
    """Draws a cell for each row and column; the darker, the larger the value; nan is an empty cell.

    `axis` says how values are written and whether the shades are logarithmic. A bar below shows the range.
    """
    finite = [float(v) for row in values for v in row if math.isfinite(v)]
    least = max(1.0, min(finite, default=1.0)) if axis.log else 0.0
    low = axis.low if axis.low is not None else least
    high = max([low * 10 if axis.log else low + 1e-12, *finite]) if axis.high is None else axis.high
    plain = Axis(x_label, low=0.0, high=float(max(len(columns), 1)))
    height = 10 + CELL_HEIGHT_PX * max(len(rows), 1) + 74
    about = about or f"{axis.label} by row and column; rows: {', '.join(rows)}"
    drawn = frame(title, about, (plain, Axis("")), ((), ()), (width, height))
    left, right, top = HEAT_LEFT_PX, width - 16, 10.0
    step = (right - left) / max(len(columns), 1)
    for r, name in enumerate(rows):
        at = top + r * CELL_HEIGHT_PX
        drawn.text(left - 8, at + CELL_HEIGHT_PX / 2 + 4, shortened(name), "end", "name")
        for c, value in enumerate(values[r]):
            what = f"{name}, {columns[c]}"
            drawn.parts.append(_cell(left + c * step, at, step, float(value), (low, high), axis, what))
    foot = top + len(rows) * CELL_HEIGHT_PX
    every = max(1, math.ceil(34 / step))
    for c in range(0, len(columns), every):
        drawn.text(left + (c + 0.5) * step, foot + 16, columns[c], "middle")
    drawn.text((left + right) / 2, foot + 34, x_label, "middle", "label")
    if finite:
        _heat_scale(drawn, left, foot + 46, (low, high), axis)
    else:
        drawn.text((left + right) / 2, foot + 58, "no values", "middle")
    return drawn.svg()


def _strength(value: float, ends: tuple[float, float], axis: Axis) -> float:
    low, high = ends
    value = min(max(value, low), high)
    if axis.log:
        low, high, value = math.log10(low), math.log10(high), math.log10(value)
    return 0.04 + 0.96 * (value - low) / (high - low)


def _cell(
    x: float, y: float, width: float, value: float, ends: tuple[float, float], axis: Axis, what: str
) -> str:  # fmt: skip
    box = f'x="{px(x + 0.5)}" y="{px(y + 0.5)}" width="{px(width - 1)}" height="{px(CELL_HEIGHT_PX - 1)}"'
    tip = f"<title>{escape(what)}: {escape(axis.text(value))}</title>"
    if not math.isfinite(value):
        return f'<rect class="none" {box}>{tip}</rect>'
    return f'<rect class="heat" fill-opacity="{_strength(value, ends, axis):.2f}" {box}>{tip}</rect>'


def _heat_scale(drawn: Frame, left: float, y: float, ends: tuple[float, float], axis: Axis) -> None:
    """Draws the shades from the lowest to the highest value, with both values."""
    steps = 24
    for i in range(steps):
        box = f'x="{px(left + i * KEY_WIDTH_PX / steps)}" y="{px(y)}" width="{px(KEY_WIDTH_PX / steps)}" height="10"'
        drawn.parts.append(f'<rect class="heat" fill-opacity="{0.04 + 0.96 * i / (steps - 1):.2f}" {box}/>')
    drawn.text(left - 8, y + 9, ("≤ " if axis.log else "") + axis.text(ends[0]), "end")
    drawn.text(left + KEY_WIDTH_PX + 8, y + 9, f"{axis.text(ends[1])}, {axis.label}")
