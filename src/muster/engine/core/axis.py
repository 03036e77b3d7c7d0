"""The resource axis: which row of the columns a resource name has.

cpu, memory and pods have fixed rows; every other resource gets one when it is first seen. Rows are never taken back,
so the first rows of a vector made later are those of one made earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

CPU, MEMORY, PODS = 0, 1, 2

Vector = NDArray[np.int64]

class Axis:
    __slots__ = ("names", "rows")

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods"]
        self.rows: dict[str, int] = {name: row for row, name in enumerate(self.names)}

    @property
    def size(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """The row of a resource, made if it is new."""
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self.names)
            self.names.append(name)
        return row

    def learn(self, names: Iterable[str]) -> None:
        for name in names:
            self.row(name)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        self.learn(amounts)
        vector = np.zeros(self.size, np.int64)
        for name, amount in amounts.items():
            vector[self.rows[name]] = amount
        return vector

    def amounts(self, vector: Iterable[int]) -> dict[str, int]:
        return {name: int(v) for name, v in zip(self.names, vector, strict=False) if v}


def exact_sum(amounts: Vector) -> int:
    """The sum over nodes: ten thousand disks of a tebibyte, in thousandths of a byte, do not fit 64 bits."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFFFFFF).sum())
