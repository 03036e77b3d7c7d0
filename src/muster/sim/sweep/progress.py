"""Shows how far a sweep is if stderr is no terminal: a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Lines"]

LINE_INTERVAL_S = 30.0


class Lines:
    """Prints a line at most every half minute."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._total = self._done = self._new = self._failed = 0

    def __enter__(self) -> Lines:
        self._start = self._last = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def begin(self, total: int, resumed: int) -> None:
        self._total, self._done = total, resumed

    def finished(self, failed: bool) -> None:
        self._done += 1
        self._new += 1
        self._failed += failed
        now = self._clock()
        if now - self._last >= LINE_INTERVAL_S and self._done < self._total:
            self._last = now
            left = (now - self._start) / self._new * (self._total - self._done)
            print(f"{_counts(self._done, self._total, self._failed)}, about {_duration(left)} left", file=self._stream)


def _counts(done: int, total: int, failed: int) -> str:
    return f"{done:,} of {total:,} cells" + (f", {failed:,} failed" if failed else "")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(1, minutes)} min"
