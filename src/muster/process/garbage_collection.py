"""Python's collector on a large cluster: nobody waits for it to look at everything there is.

A full collection looks at every object and holds every thread up meanwhile, for seconds where a hundred thousand pods
are known. What was read at the start stays: it is not looked at again. What is young is looked at as ever, in small
portions; what has grown old since only now and then, and then it counts as having been there from the start.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

YOUNG, MIDDLE, NEVER = 10_000, 10, 1_000_000
SELDOM = 600.0


class Collecting:
    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._at = 0.0

    @contextmanager
    def for_long(self) -> Iterator[None]:
        """What is there now stays until the end of the block."""
        before = gc.get_threshold()
        gc.set_threshold(YOUNG, MIDDLE, NEVER)
        self._all()
        try:
            yield
        finally:
            gc.unfreeze()
            gc.set_threshold(*before)

    def now_and_then(self) -> None:
        """To be called where a pause does the least harm."""
        if self._ticks() >= self._at + SELDOM:
            self._all()

    def _all(self) -> None:
        gc.collect()
        gc.freeze()
        self._at = self._ticks()
