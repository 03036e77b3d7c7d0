"""A cell of a grid: one replay, named by its place in the grid and by the hash of what its result depends on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay of a grid. `seed` is None if no seed changes the trace."""

    trace: str
    cluster: str
    configuration: str
    seed: int | None
    key: str

    def __str__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.configuration}, {self.trace}, {self.cluster}{seed}"
