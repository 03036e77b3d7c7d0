"""The clock of the embedded cluster, which advances only when `advance` is called."""

from __future__ import annotations


class VirtualClock:
    """A clock that the simulation sets; it never goes back."""

    def __init__(self, start: float) -> None:
        self.start = start
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, to: float) -> None:
        """Advances to that time; an earlier time changes nothing."""
        self._now = max(self._now, to)
