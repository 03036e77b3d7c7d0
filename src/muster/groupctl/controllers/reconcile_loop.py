"""Turns of controllers in a thread of their own: when something happened, when one of them asked for it, never else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

# Changes come in crowds: so long is waited for the rest of one.
GATHER = 0.05
LONGEST = 60.0


class Controller(Protocol):
    """A controller."""

    def run(self) -> bool:
        """Do what is to be done now; whether anything was written."""
        ...

    def next_time(self) -> float | None:
        """When it will have something to do by itself; None if never."""
        ...


class ReconcileLoop:
    """`wake` may be called by any thread; `stop` ends `run` after the turn it is in."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.runs = 0
        self._now = now
        self._news = threading.Event()
        self._stopped = threading.Event()

    def wake(self, _: object = None) -> None:
        self._news.set()

    def stop(self) -> None:
        self._stopped.set()
        self._news.set()

    def run(self, make: Callable[[], Sequence[Controller]]) -> None:
        """Make the controllers, and let them work until stopped."""
        parts = make()
        while not self._stopped.is_set():
            self._news.clear()
            wrote = False
            for part in parts:
                wrote = part.run() or wrote
                self.runs += 1
                if self._stopped.is_set():
                    return
            if not wrote:
                self._news.wait(self._pause(parts))
                self._stopped.wait(GATHER)

    def _pause(self, parts: Sequence[Controller]) -> float:
        times = [time for part in parts if (time := part.next_time()) is not None]
        return min(max(min(times) - self._now(), 0.0), LONGEST) if times else LONGEST
