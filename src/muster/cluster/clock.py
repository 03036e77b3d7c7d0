"""The embedded cluster's time: it stands still until somebody moves it."""

from __future__ import annotations


class VirtualClock:
    """A clock that is set by the simulation; it never goes back."""

    def __init__(self, start: float) -> None:
        self.start = start
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, to: float) -> None:
        """Move on to that moment; one that has passed already changes nothing."""
        self._now = max(self._now, to)
