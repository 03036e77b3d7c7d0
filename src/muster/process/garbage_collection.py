"""Python's garbage collector on a large cluster, without long pauses.

A full collection visits every object and stops every thread, for seconds if there are a hundred thousand pods. So the
objects that were read at the start are frozen: the collector does not visit them again. Young objects are collected as
usual; older objects every ten minutes, and then they are frozen as well.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

THRESHOLDS = (10_000, 10, 1_000_000)  # of the three generations: the oldest is never collected by itself
FULL_COLLECTION_PERIOD_S = 600.0


class GarbageCollection:
    """Freezes what is in memory, and collects fully only when it is asked to."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._at = 0.0

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freezes all objects until the end of the block."""
        before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        self._collect_and_freeze()
        try:
            yield
        finally:
            gc.unfreeze()
            gc.set_threshold(*before)

    def collect_if_due(self) -> None:
        """Collects fully every ten minutes; call it where a pause does the least harm."""
        if self._ticks() >= self._at + FULL_COLLECTION_PERIOD_S:
            self._collect_and_freeze()

    def _collect_and_freeze(self) -> None:
        gc.collect()
        gc.freeze()
        self._at = self._ticks()
