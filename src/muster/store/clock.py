"""The clock of a store, and how a time is written into an object."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

FIRST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


class Clock(Protocol):
    """The current time: a real clock, or the virtual clock of the embedded cluster."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


@lru_cache(maxsize=4096)
def timestamp(seconds: float) -> str:
    """A moment as Kubernetes writes it; parts of a second only where there are any. Time ends with the year 9999."""
    whole, micro = divmod(round(min(max(seconds, FIRST), LAST) * 1_000_000), 1_000_000)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{micro:06d}Z" if micro else f"{text}Z"
