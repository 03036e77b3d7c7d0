"""Retries failed writes with exponential back-off, so that one refused object never stops the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from muster.store import ApiError, Conflict

K = TypeVar("K")

FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 300.0


def ignore(fault: str) -> None:
    """Ignores the message."""


class Retries(Generic[K]):
    """The keys that failed, each with the time of its next attempt."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._next: dict[K, tuple[float, float]] = {}  # key → when, and the delay

    @contextmanager
    def attempt(self, key: K, now: float) -> Iterator[None]:
        """A context in which an error of the store schedules a retry of the key; the first error is reported."""
        try:
            yield
        except ApiError as fault:
            known = self._next.get(key)
            wait = FIRST_RETRY_S if known is None else min(2 * known[1], LONGEST_RETRY_S)
            self._next[key] = (now + wait, wait)
            # Somebody wrote the object since it was read: this is normal.
            if known is None and not isinstance(fault, Conflict):
                self._report(f"{' '.join(key).strip() if isinstance(key, tuple) else key}: {fault}")
        else:
            self._next.pop(key, None)

    def due(self, now: float) -> list[K]:
        return [key for key, (at, _) in self._next.items() if at <= now]

    def next_time(self) -> float | None:
        return min((at for at, _ in self._next.values()), default=None)
