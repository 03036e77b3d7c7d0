"""What could not be written is tried again, ever later: one object that is refused never stops the others."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")

FIRST, LONGEST = 0.1, 300.0


class Retries(Generic[K]):
    """Keys that failed, each with the time of its next try."""

    def __init__(self) -> None:
        self._next: dict[K, tuple[float, float]] = {}  # key → when, and how long it was waited for that

    def failed(self, key: K, now: float) -> bool:
        """Whether this is its first failure since it last worked."""
        known = self._next.get(key)
        wait = FIRST if known is None else min(2 * known[1], LONGEST)
        self._next[key] = (now + wait, wait)
        return known is None

    def worked(self, key: K) -> None:
        self._next.pop(key, None)

    def due(self, now: float) -> list[K]:
        return [key for key, (at, _) in self._next.items() if at <= now]

    def next_time(self) -> float | None:
        return min((at for at, _ in self._next.values()), default=None)
