"""Axes of charts: linear and logarithmic scales, round tick marks, and values as text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

TICKS = 6  # about so many on a linear axis
MAX_DECADES = 8  # a logarithmic axis with more of them labels every second one
SECONDS = "s"
SHARE = "%"
_DURATIONS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_DURATION_TICKS = (1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0, 864000.0, 8640000.0, 86400000.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a chart. Without `low` and `high` it covers the values; a linear one without `low` includes zero.

    A logarithmic axis draws values below its `low` (1 by default) at its lower end: a waiting time of zero is visible.
    """

    label: str
    unit: str = ""  # "" for numbers, "s" for durations in seconds, "%" for shares between 0 and 1
    log: bool = False
    low: float | None = None
    high: float | None = None

    def text(self, value: float) -> str:
        """Returns a value as the axis and the table below the chart show it; "–" for nan."""
        if not math.isfinite(value):
            return "–"
        if self.unit == SECONDS:
            return duration(value)
        return f"{trimmed(100 * value)} %" if self.unit == SHARE else number(value)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps the values of an axis to the pixels between `start` and `stop`."""

    axis: Axis
    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.axis.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (self.stop - self.start) * (value - low) / (high - low)

    def ticks(self) -> list[tuple[float, str]]:
        """Returns the values with a tick mark, and their labels."""
        if not self.axis.log:
            found = _ticks_of(self.axis, self.low, self.high)
        elif self.axis.unit == SECONDS:
            found = [tick for tick in _DURATION_TICKS if self.low <= tick <= self.high]
        else:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            found = [10.0**power for power in range(first, last + 1, 2 if last - first > MAX_DECADES else 1)]
        return [(value, self.axis.text(value)) for value in found]


def scale(axis: Axis, values: Iterable[float], start: float, stop: float) -> Scale:
    """Returns the scale of an axis for these values; it is never empty."""
    finite = [value for value in values if math.isfinite(value)]
    if axis.log:
        low = axis.low if axis.low is not None else 1.0
        high = axis.high if axis.high is not None else max([10 * low, *finite])
        return Scale(axis, low, max(high, 1.001 * low), start, stop)
    low = axis.low if axis.low is not None else min([0.0, *finite])
    high = axis.high if axis.high is not None else max([low, *finite, *([0.0] if axis.low is None else [])])
    if high <= low:
        high = low + 1
    ticks = _ticks_of(axis, low, high)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    if step and axis.high is None and ticks[-1] < high:
        high = ticks[-1] + step
    if step and axis.low is None and ticks[0] > low:
        low = ticks[0] - step
    return Scale(axis, low, high, start, stop)


def _ticks_of(axis: Axis, low: float, high: float) -> list[float]:
    """Returns round values in the unit in which they are written: hours rather than multiples of 1000 seconds."""
    size = next((size for size, _ in _DURATIONS if high >= 2 * size), 1.0) if axis.unit == SECONDS else 1.0
    return [size * tick for tick in linear_ticks(low / size, high / size)]


def linear_ticks(low: float, high: float) -> list[float]:
    """Returns multiples of 1, 2 or 5 times a power of ten, about `TICKS` of them."""
    raw = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def duration(seconds: float) -> str:
    """Returns a duration in its largest unit: `90 s` is `1.5 min`."""
    for size, unit in _DURATIONS:
        if abs(seconds) >= size:
            return f"{trimmed(seconds / size)} {unit}"
    return f"{trimmed(seconds)} s"


def number(value: float) -> str:
    """Returns a number with thousands separators, and at most three significant digits behind the point."""
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-3:
        return f"{value:.2e}"
    return trimmed(value)


def trimmed(value: float) -> str:
    """Rounds to two digits behind the point (three below one) and drops zeros at the end; never "-0"."""
    size = abs(value)
    text = f"{value:,.{0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
