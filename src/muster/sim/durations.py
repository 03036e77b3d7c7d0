"""Durations as people write them: `90`, `30s`, `1h30m`, `7d`."""

from __future__ import annotations

import math
import re

__all__ = ["seconds_of"]

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d|w)", re.ASCII)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def seconds_of(given: object) -> float:
    """Returns the seconds of a number or of a text with units, which is at least 0; raises ValueError."""
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < math.inf:
        return float(given)
    text = given.strip() if isinstance(given, str) else ""
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number < math.inf:
        return number
    raise ValueError(f"{given!r} is no duration (write it as 30s, 1h30m or 7d)")
