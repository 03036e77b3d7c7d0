"""The labels of nodes as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]


class LabelColumns:
    """Node labels as interned columns, so that a selector over all nodes is a table look-up.

    Each label key that is asked for has one int32 column: the code of the node's value; the last code is that of
    "absent". A requirement is evaluated once per distinct value and then taken by code.
    """

    def __init__(self, labels: list[Mapping[str, str]]) -> None:
        self._labels = labels
        self._columns: dict[str, tuple[Codes, list[str | None]]] = {}

    def replace(self, node: int, labels: Mapping[str, str]) -> None:
        if self._labels[node] != labels:
            self._labels[node] = labels
            self._columns.clear()

    def of(self, node: int) -> Mapping[str, str]:
        return self._labels[node]

    def column(self, key: str) -> tuple[Codes, list[str | None]]:
        """(code per node, values by code); the last value is None, for nodes without the label."""
        column = self._columns.get(key)
        if column is None:
            found = [labels.get(key) for labels in self._labels]
            values: list[str | None] = [*sorted({v for v in found if v is not None}), None]
            code = {value: i for i, value in enumerate(values)}
            column = self._columns[key] = (np.array([code[v] for v in found], np.int32), values)
        return column

    def where(self, key: str, accepts: Callable[[str | None], bool]) -> NDArray[np.bool_]:
        """True for the nodes whose value of the label (None: absent) is accepted."""
        codes, values = self.column(key)
        return np.array([accepts(v) for v in values], np.bool_)[codes]

    def has(self, key: str) -> NDArray[np.bool_]:
        codes, values = self.column(key)
        present: NDArray[np.bool_] = codes != len(values) - 1
        return present
