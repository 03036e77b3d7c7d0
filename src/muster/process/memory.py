"""The memory of a long-running process: garbage collection without long pauses, and freed memory that is kept."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

THRESHOLDS = (10_000, 10, 1_000_000)  # of the three generations: the oldest is never collected by itself
FULL_COLLECTION_PERIOD_S = 600.0
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's names for mallopt
_KEPT_BYTES = 64 << 20


class GarbageCollection:
    """Freezes what is in memory, and collects fully only when it is asked to.

    A full collection visits every object and stops every thread, for seconds if there are a hundred thousand pods. So
    the objects that were read at the start are frozen: the collector does not visit them again. Young objects are
    collected as usual; older objects every ten minutes, and then they are frozen as well.
    """

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


def keep_freed_memory() -> None:
    """Keeps freed memory in the process, because arrays of the same size are allocated again at once.

    glibc returns the end of its heap to the system whenever 128 KiB are free there, and requests it again for the next
    array, page by page; at thousands of nodes that is a fifth of the time of a cycle. Other C libraries are not
    changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    mallopt(_TOP_PAD, 1 << 20)
    mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
