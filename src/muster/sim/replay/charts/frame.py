"""The frame of a chart in SVG: the plot area with its axes, the key beside it, and texts.

Colours come from the page's style sheet (`report.css`), so a chart follows light and dark mode. A series is
recognisable without colour: each has a dash pattern and a marker, and a band of a stack has a shade and a label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.model.markup import escape
from muster.sim.replay.charts.axes import Axis, Scale, scale
from muster.sim.report.elements import hue

LEFT, TOP, BOTTOM = 72.0, 14.0, 44.0  # pixels around the plot area
KEY_WIDTH_PX = 190.0
KEY_STEP_PX = 17.0  # between two lines of the key
MAX_NAME_CHARS = 18  # in the key; the whole name is in its tooltip
CHARACTER_PX = 7.0  # about the width of a character
SHADES = 3
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2")
_MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "M-3.2 -3.2h6.4v6.4h-6.4z",
    "M0 -4.2L4.2 3.2H-4.2z",
    "M0 -4.6L4 0L0 4.6L-4 0z",
    "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5",
    "M0 4.2L4.2 -3.2H-4.2z",
    "M-4.2 0H4.2M0 -4.2V4.2",
)


@dataclass(frozen=True, slots=True)
class Series:
    """A named line, band or row of bars: values `y` at `x`, and optionally the range from `low` to `high` of each.

    nan interrupts a line. `style` chooses colour, dash pattern and marker; -1 is the position among the series.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: int = -1

    def heights(self) -> Iterator[float]:
        for values in (self.y, self.low, self.high):
            yield from () if values is None else values


@dataclass(slots=True)
class Frame:
    """A chart that is being drawn."""

    title: str
    about: str
    x: Scale
    y: Scale
    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def svg(self) -> str:
        """Returns the whole chart."""
        size = f'viewBox="0 0 {px(self.width)} {px(self.height)}"'
        words = f"<title>{escape(self.title)}</title><desc>{escape(self.about or self.title)}</desc>"
        return f'<svg class="plot" role="img" {size} width="{px(self.width)}">{words}{"".join(self.parts)}</svg>'

    def axes(self, names: Sequence[str] | None = None) -> None:
        """Draws grid lines, tick labels and axis labels; with `names`, the x axis has no ticks of its own."""
        x, y = self.x, self.y
        for value, label in y.ticks():
            at = y.at(value)
            self.parts.append(f'<path class="grid" d="M{px(x.start)} {px(at)}H{px(x.stop)}"/>')
            self.text(x.start - 7, at + 4, label, "end")
        free = 0.0  # where the label before ends; a label that would overlap is left out
        for value, label in x.ticks() if names is None else ():
            at = x.at(value)
            self.parts.append(f'<path class="grid" d="M{px(at)} {px(y.start)}V{px(y.stop)}"/>')
            half = len(label) * CHARACTER_PX / 2
            if at - half >= free:
                self.text(at, y.start + 16, label, "middle")
                free = at + half + CHARACTER_PX
        self.parts.append(f'<path class="axis" d="M{px(x.start)} {px(y.stop)}V{px(y.start)}H{px(x.stop)}"/>')
        self.text((x.start + x.stop) / 2, y.start + 36, x.axis.label, "middle", "label")
        if y.axis.label:
            middle = (y.start + y.stop) / 2
            turned = f'transform="rotate(-90 12 {px(middle)})"'
            self.parts.append(f'<text class="label" x="12" y="{px(middle)}" text-anchor="middle" {turned}>')
            self.parts.append(f"{escape(y.axis.label)}</text>")

    def text(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "tick") -> None:
        self.parts.append(f'<text class="{kind}" x="{px(x)}" y="{px(y)}" text-anchor="{anchor}">{escape(text)}</text>')

    def empty(self) -> None:
        """Writes that there is nothing to draw."""
        self.text((self.x.start + self.x.stop) / 2, (self.y.start + self.y.stop) / 2, "no values", "middle")

    def key(self, entries: Iterable[tuple[float, str, str]], leads: bool = False) -> None:
        """Writes names beside the plot area: each (the height that it belongs to, the name, its symbol around 0, 0).

        A name is as near to its height as the others allow, and with `leads` a thin line connects the two.
        """
        wanted = sorted(entries, key=lambda entry: entry[0])
        for at, (height, name, symbol) in zip(self._apart([e[0] for e in wanted]), wanted, strict=True):
            left = self.x.stop
            if leads:
                self.parts.append(f'<path class="lead" d="M{px(left)} {px(height)}L{px(left + 12)} {px(at)}"/>')
            self.parts.append(f'<g transform="translate({px(left + 27)} {px(at)})">{symbol}</g>')
            shown = shortened(name)
            self.parts.append(f'<text class="name" x="{px(left + 44)}" y="{px(at + 4)}">{escape(shown)}')
            self.parts.append(f"<title>{escape(name)}</title></text>" if shown != name else "</text>")

    def _apart(self, heights: Sequence[float]) -> list[float]:
        """Moves sorted heights apart so that each is `KEY_STEP_PX` below the last, and all are in the plot area."""
        low, high = self.y.stop + 4, self.y.start
        step = min(KEY_STEP_PX, (high - low) / max(len(heights) - 1, 1))
        found: list[float] = []
        for height in heights:
            found.append(max(height, found[-1] + step if found else low))
        limit = high
        for i in range(len(found) - 1, -1, -1):
            found[i] = min(found[i], limit)
            limit = found[i] - step
        return found


def frame(
    title: str, about: str, axes: tuple[Axis, Axis], values: tuple[Iterable[float], Iterable[float]],
    size: tuple[float, float], names: int = 0, foot: float = BOTTOM,
) -> Frame:  # fmt: skip
    """Returns an empty chart of a size in pixels, scaled to the values, with a key of so many names at the right."""
    width, height = size
    height = max(height, TOP + foot + KEY_STEP_PX * names)
    right = KEY_WIDTH_PX if names else 16.0
    x = scale(axes[0], values[0], LEFT, width - right)
    y = scale(axes[1], values[1], height - foot, TOP)
    return Frame(title, about, x, y, width, height)


def described(series: Sequence[Series], y: Axis) -> str:
    """Returns the description of a chart for screen readers: the names of its series and their last values."""
    last = ((s.name, next((float(v) for v in reversed(s.y) if math.isfinite(v)), math.nan)) for s in series)
    return f"{y.label}, last value: " + "; ".join(f"{name} {y.text(value)}" for name, value in last)


def dash(style: int) -> str:
    pattern = _DASHES[style % len(_DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def marker(style: int, x: float = 0.0, y: float = 0.0) -> str:
    """Draws the marker of a style at a place."""
    place = f' transform="translate({px(x)} {px(y)})"' if x or y else ""
    return f'<path class="mark {hue(style)}" d="{_MARKERS[style % len(_MARKERS)]}"{place}/>'


def sample(style: int) -> str:
    """Draws a short piece of a line with its marker, for a key."""
    return f'<path class="line {hue(style)}"{dash(style)} d="M-13 0H13"/>{marker(style)}'


def shade(style: int) -> str:
    """Returns the class of a band: neighbours differ in lightness, also without colour."""
    return f"band b{style % SHADES}"


def key(names: Sequence[str]) -> str:
    """Returns a key in HTML for several charts with the same series."""
    entries = (
        f'<span><svg class="plot" role="presentation" viewBox="-14 -7 28 14" width="28">{sample(i)}</svg> '
        f"{escape(name)}</span>"
        for i, name in enumerate(names)
    )
    return f'<div class="legend">{"".join(entries)}</div>'


def shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def px(value: float) -> str:
    """Returns a coordinate with one digit behind the point."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def path(xs: Iterable[float], ys: Iterable[float]) -> str:
    """Returns the path through points in pixels; nan begins a new piece."""
    pieces: list[str] = []
    pen = "M"
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(x) or math.isnan(y):
            pen = "M"
            continue
        pieces.append(f"{pen}{px(x)} {px(y)}")
        pen = "L"
    return "".join(pieces)


def floats(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)
