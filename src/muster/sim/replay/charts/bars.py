"""Charts of bars with their spread, and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from muster.model.markup import escape
from muster.sim.replay.charts.axes import Axis
from muster.sim.replay.charts.frame import (
    BOTTOM,
    CHARACTER,
    KEY_WIDTH,
    LEFT,
    MAX_NAME,
    Frame,
    Series,
    described,
    frame,
    marker,
    px,
    shade,
    shortened,
)
from muster.sim.replay.charts.lines import SIZE
from muster.sim.report.elements import hue

GAP = 0.25  # of a group's width, between groups
CELL_HEIGHT = 22.0
HEAT_LEFT = 150.0


def bar_chart(
    title: str, groups: Sequence[str], series: Sequence[Series], y: Axis, *, x_label: str = "", about: str = "",
    size: tuple[float, float] = SIZE,
) -> str:  # fmt: skip
    """Draws for each group one bar per series: `y` is the value of each group; the line from `low` to `high` is its
    spread. `x` of the series is not read. Above each bar is the marker of its series, also without colour."""
    heights = chain.from_iterable(s.heights() for s in series)
    ends = (Axis(x_label, low=0.0, high=float(max(len(groups), 1))), y)
    longest = min(max(map(len, groups), default=0), MAX_NAME) * CHARACTER
    turned = longest * len(groups) > size[0] - LEFT - KEY_WIDTH  # the names do not fit beside each other
    foot = BOTTOM + (0.6 * longest if turned else 0.0)
    drawn = frame(title, about or described(series, y), ends, ((), heights), size, len(series), foot)
    drawn.axes(groups)
    room = (drawn.x.at(1.0) - drawn.x.at(0.0)) if groups else 1.0
    width = room * (1 - GAP) / max(len(series), 1)
    for g, group in enumerate(groups):
        left = drawn.x.at(float(g)) + room * GAP / 2
        _group_name(drawn, left + room * (1 - GAP) / 2, group, turned)
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
    height = 10 + CELL_HEIGHT * max(len(rows), 1) + 74
    about = about or f"{axis.label} by row and column; rows: {', '.join(rows)}"
    drawn = frame(title, about, (plain, Axis("")), ((), ()), (width, height))
    left, right, top = HEAT_LEFT, width - 16, 10.0
    step = (right - left) / max(len(columns), 1)
    for r, name in enumerate(rows):
        at = top + r * CELL_HEIGHT
        drawn.text(left - 8, at + CELL_HEIGHT / 2 + 4, shortened(name), "end", "name")
        for c, value in enumerate(values[r]):
            what = f"{name}, {columns[c]}"
            drawn.parts.append(_cell(left + c * step, at, step, float(value), (low, high), axis, what))
    foot = top + len(rows) * CELL_HEIGHT
    every = max(1, math.ceil(34 / step))
    for c in range(0, len(columns), every):
        drawn.text(left + (c + 0.5) * step, foot + 16, columns[c], "middle")
    drawn.text((left + right) / 2, foot + 34, x_label, "middle", "label")
    if finite:
        _range(drawn, left, foot + 46, (low, high), axis)
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
    box = f'x="{px(x + 0.5)}" y="{px(y + 0.5)}" width="{px(width - 1)}" height="{px(CELL_HEIGHT - 1)}"'
    tip = f"<title>{escape(what)}: {escape(axis.text(value))}</title>"
    if not math.isfinite(value):
        return f'<rect class="none" {box}>{tip}</rect>'
    return f'<rect class="heat" fill-opacity="{_strength(value, ends, axis):.2f}" {box}>{tip}</rect>'


def _range(drawn: Frame, left: float, y: float, ends: tuple[float, float], axis: Axis) -> None:
    """Draws the shades from the lowest to the highest value, with both values."""
    steps = 24
    for i in range(steps):
        box = f'x="{px(left + i * KEY_WIDTH / steps)}" y="{px(y)}" width="{px(KEY_WIDTH / steps)}" height="10"'
        drawn.parts.append(f'<rect class="heat" fill-opacity="{0.04 + 0.96 * i / (steps - 1):.2f}" {box}/>')
    drawn.text(left - 8, y + 9, ("≤ " if axis.log else "") + axis.text(ends[0]), "end")
    drawn.text(left + KEY_WIDTH + 8, y + 9, f"{axis.text(ends[1])}, {axis.label}")
