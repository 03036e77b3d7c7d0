"""Computes the wait before the next attempt: longer each time, with jitter."""

from __future__ import annotations

import random

_dice = random.Random()  # one for all: making one asks the kernel for a seed, and every call makes a Backoff


class Backoff:
    """Waits that double from `first` to `most` seconds, each random in the upper half of its range."""

    def __init__(self, first: float = 0.1, most: float = 30.0, dice: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._dice = dice or _dice
        self._span = first

    def next(self, at_least: float | None = None) -> float:
        """Returns the seconds to wait; `at_least` is the server's Retry-After, to which jitter is added."""
        span, self._span = self._span, min(self._span * 2, self._most)
        wait = span * self._dice.uniform(0.5, 1.0)
        return wait if at_least is None else max(wait, at_least * self._dice.uniform(1.0, 1.2))

    def reset(self) -> None:
        """Resets the wait to `first` after a success."""
        self._span = self._first
