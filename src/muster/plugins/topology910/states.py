"""What of a board decides: a small number per node, and tables from that number to verdict and score.

Boards with equal layout, equal faults and equally many free chips in their rings are alike for every request, so such a
state has a number, and filter and score are look-ups `table[state[nodes]]`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.devices import MOST_CHIPS, MOST_GROUPS, Fit, Layout
from muster.engine.hooks import Bools, Floats

NO_BOARD, WAITS = 0, 1  # no chips, or set aside; the list of chips is being waited for

_GROUP = MOST_CHIPS + 1  # a step of the group outweighs every rank in it
_HEALTHY = _GROUP * MOST_GROUPS  # a healthy chip more outweighs every group


@dataclass(frozen=True, slots=True)
class RingState:
    layout: Layout
    healthy: int  # how many chips the node offers in all
    counts: tuple[int, ...]  # free, per ring
    pairs: int

    def fit(self, request: int) -> Fit | None:
        return self.layout.fit(self.counts, self.pairs, request)


@dataclass(slots=True)
class Table:
    """Per state of a board: does it serve the request, and the three parts of its worth, the weightiest first."""

    fits: Bools
    healthy: Floats
    group: Floats
    rank: Floats


class States:
    def __init__(self) -> None:
        self.known: list[RingState | None] = [None, None]
        self._numbers: dict[RingState, int] = {}
        self._by_chips: dict[tuple[Layout, int, int], int] = {}
        self._tables: dict[int, Table] = {}

    def number(self, layout: Layout, healthy: int, free: int) -> int:
        """The number of a board's state, by the set of its free chips."""
        key = (layout, healthy, free)
        number = self._by_chips.get(key)
        if number is None:
            state = RingState(layout, healthy, layout.counts(free), layout.pairs(free))
            number = self._numbers.get(state)
            if number is None:
                number = self._numbers[state] = len(self.known)
                self.known.append(state)
            self._by_chips[key] = number
        return number

    def table(self, request: int) -> Table:
        table = self._tables.get(request)
        if table is None or len(table.fits) != len(self.known):
            table = self._tables[request] = self._made(request)
        return table

    def _made(self, request: int) -> Table:
        rows = [self._row(state, request) for state in self.known]
        fits, healthy, group, rank = zip(*rows, strict=True)
        return Table(np.array(fits, np.bool_), np.array(healthy, float), np.array(group, float), np.array(rank, float))

    @staticmethod
    def _row(state: RingState | None, request: int) -> tuple[bool, int, int, int]:
        fit = state.fit(request) if state is not None else None
        if state is None or fit is None:
            return False, 0, 0, 0
        # Faults, not sizes: a whole board of 8 is as good as a whole board of 16.
        faults = max(state.layout.size - state.healthy, 0)
        return (
            True,
            _HEALTHY * (MOST_CHIPS - faults),
            _GROUP * (MOST_GROUPS - 1 - fit.group),
            MOST_CHIPS - fit.rank,
        )
