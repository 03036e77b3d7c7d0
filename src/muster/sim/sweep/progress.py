"""Shows how far a sweep is, on stderr: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

__all__ = ["Bar", "Lines", "progress_on"]

LINE_INTERVAL_S = 30.0


def progress_on(stream: TextIO) -> Bar | Lines:
    """Returns the bar for a terminal, or the lines for a file or a pipe."""
    return Bar(stream) if stream.isatty() else Lines(stream)


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


class Bar:
    """A bar with counts and the remaining time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rich: RichProgress | None = None
        self._failed = 0

    def __enter__(self) -> Bar:
        return self

    def begin(self, total: int, resumed: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"),
            TimeRemainingColumn(elapsed_when_finished=True), TextColumn("left"),
        )  # fmt: skip
        # The speed is that of the whole sweep: cells of one trace may take longer than those of another.
        self._rich = Progress(*columns, console=Console(file=self._stream), transient=True, speed_estimate_period=1e9)
        self._rich.add_task(f"({resumed} from before)" if resumed else "", total=total, completed=resumed)
        self._rich.start()

    def finished(self, failed: bool) -> None:
        self._failed += failed
        if self._rich is not None:
            task = self._rich.task_ids[0]
            self._rich.update(task, advance=1, description=f"{self._failed} failed" if self._failed else None)

    def __exit__(self, *_: object) -> None:
        if self._rich is not None:
            self._rich.stop()


def _counts(done: int, total: int, failed: int) -> str:
    return f"{done:,} of {total:,} cells" + (f", {failed:,} failed" if failed else "")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(1, minutes)} min"
