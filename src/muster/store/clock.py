"""The clock that controllers ask, and how a moment is written into an object."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Says what time it is: a real clock, or the embedded cluster's virtual one."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


@lru_cache(maxsize=4096)
def timestamp(seconds: float) -> str:
    """A moment as Kubernetes writes it; parts of a second only where there are any."""
    whole, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{micro:06d}Z" if micro else f"{text}Z"
