"""What `muster bench` needs of everything that it measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Figures = dict[str, float]


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


class WrongAnswer(Exception):
    """The result is not the one that is required, so its time is meaningless."""
