"""What `muster bench` needs of everything that it measures, and the calibration of machines.

A record has each time in CPU seconds, and as a multiple of what a fixed loop of Python and NumPy takes in the same
process, so that figures of different machines compare.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np

Figures = dict[str, float]
DICTIONARY_STEPS = 1_000_000
PASSES = 10_000
ELEMENTS = 5_000
REPEATS = 3


class Measurement(Protocol):
    """A named measurement. Of every figure the smallest of several runs counts."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...

    @property
    def floors(self) -> Mapping[str, float]:
        """The largest permitted value of some of the figures."""

    def run(self) -> Figures:
        """Measures once, in a new process. `seconds` is the CPU time of all that is measured."""

    def derived(self, best: Figures) -> dict[str, object]:
        """Returns what a record says beyond the figures."""


class WrongResult(Exception):
    """The result is not the one that is required, so its time is meaningless."""


def calibration_s() -> float:
    """Returns the CPU seconds of the loop, best of three."""
    return min(_calibration_run() for _ in range(REPEATS))


def _calibration_run() -> float:
    start = time.process_time()
    counted: dict[int, int] = {}
    for i in range(DICTIONARY_STEPS):
        counted[i & 1023] = i
    column = np.arange(ELEMENTS, dtype=np.float64)
    result = column.copy()
    for _ in range(PASSES):
        np.add(column, 1.0, out=result)
    return time.process_time() - start
