"""Fixed work in Python and NumPy, so that figures of different machines compare.

A record has each time in CPU seconds, and as a multiple of what this loop takes in the same process.
"""

from __future__ import annotations

import time

import numpy as np

DICTIONARY_STEPS = 1_000_000
PASSES = 10_000
ELEMENTS = 5_000
REPEATS = 3


def calibration_s() -> float:
    """Returns the CPU seconds of the loop, best of three."""
    return min(_once() for _ in range(REPEATS))


def _once() -> float:
    start = time.process_time()
    counted: dict[int, int] = {}
    for i in range(DICTIONARY_STEPS):
        counted[i & 1023] = i
    column = np.arange(ELEMENTS, dtype=np.float64)
    result = column.copy()
    for _ in range(PASSES):
        np.add(column, 1.0, out=result)
    return time.process_time() - start
