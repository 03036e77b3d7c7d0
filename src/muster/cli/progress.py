"""Shows on a terminal how far a command is: what it does, counts, and the remaining time, after two seconds.

A thread prints the line, so that the work itself pays nothing for it. It uses no escape codes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from muster.engine.core.state import State

__all__ = ["Lines", "Progress", "duration", "pods_placed", "progress"]

FIRST_S = 2.0
INTERVAL_S = 0.5
LINE_INTERVAL_S = 30.0  # if stderr is no terminal
Sample = Callable[[], tuple[int, int]]


class Progress:
    """The state of some work; `update` may be called as often as is convenient."""

    def __init__(self, what: str, unit: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.unit = what, unit
        self.done = self.total = 0
        self.note = ""
        self.sample: Sample | None = None  # asks for the counts when the line is printed
        self._clock, self._start = clock, clock()
        self._first: int | None = None  # what was done when the counting began

    def update(self, done: int, total: int = 0, note: str = "") -> None:
        """Sets the counts; without a total there is no remaining time."""
        self.done, self.total, self.note = done, total and max(done, total), note
        if self._first is None:
            self._first = done

    def line(self) -> str:
        """Returns `simulating: 1,200 of 5,000 pods, about 12 s left`."""
        if self.sample is not None:
            with suppress(RuntimeError, LookupError):  # the work may change what is counted meanwhile
                self.update(*self.sample())
        elapsed = self._clock() - self._start
        if not self.done and not self.total:
            return f"{self.what}: {duration(elapsed)}"
        unit = f" {self.unit}" if self.unit else ""
        if not self.total:
            return f"{self.what}: {self.done:,}{unit}, {duration(elapsed)}"
        new = self.done - (self._first or 0)
        left = f", about {duration(elapsed / new * (self.total - self.done))} left" if new > 0 else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.what}: {self.done:,} of {self.total:,}{unit}{note}{left}"


@contextmanager
def progress(what: str, unit: str = "", stream: TextIO | None = None, first: float = FIRST_S) -> Iterator[Progress]:
    """Shows the line on stderr while the work lasts longer than two seconds, if stderr is a terminal."""
    out = stream or sys.stderr
    shown = Progress(what, unit)
    if not out.isatty():
        yield shown
        return
    over = Event()
    width = 0

    def write(text: str) -> None:
        nonlocal width
        if text or width:
            out.write(f"\r{text.ljust(width)}" if text else f"\r{' ' * width}\r")
            out.flush()
        width = len(text)

    def run() -> None:
        wait = first
        while not over.wait(wait):
            wait = INTERVAL_S
            from shutil import get_terminal_size  # slow to import, and mostly there is no terminal

            write(shown.line()[: get_terminal_size().columns - 1])

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        over.set()
        thread.join()
        write("")


@contextmanager
def pods_placed(what: str) -> Iterator[Callable[[State], None]]:
    """Shows how many pods a simulation has placed; it calls the function with its state when it starts."""
    with progress(what, "pods") as shown:
        most = placed = 0

        def started(state: State) -> None:
            def sample() -> tuple[int, int]:
                nonlocal most, placed
                pending = sum(job.count[Status.PENDING] for job in list(state.jobs.values()))
                most = max(most, pending)
                placed = max(placed, most - pending)  # at the end of a cycle the state takes its placements back
                return placed, most

            from muster.engine.core.jobs import Status

            shown.sample = sample

        yield started


def duration(seconds: float) -> str:
    """Returns `45 s`, `3 min` or `2 h 5 min`."""
    if seconds < 90:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


class Lines:
    """Prints how far a sweep is, a line at most every half minute, if stderr is no terminal."""

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
            print(f"{_counts(self._done, self._total, self._failed)}, about {duration(left)} left", file=self._stream)


def _counts(done: int, total: int, failed: int) -> str:
    return f"{done:,} of {total:,} cells" + (f", {failed:,} failed" if failed else "")
