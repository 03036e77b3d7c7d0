"""Numbers the states of boards, and has tables from that number to verdict and score.

Boards with equal layout, equal faults and equally many free chips in their rings are equal for every request, so such a
state has a number, and filter and score are look-ups `table[state[nodes]]`.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.engine.core.hooks import Floats, Reason
from muster.engine.devices.boards import MOST_CHIPS, MOST_GROUPS, Fit, Layout

NO_BOARD = 0  # no chips, or their lists cannot be used

_GROUP = MOST_CHIPS + 1  # a step of the group outweighs every rank in it
_HEALTHY = _GROUP * MOST_GROUPS  # one more healthy chip outweighs every group


class RingState(Struct, frozen=True):
    layout: Layout
    healthy: int  # how many chips the node offers in all
    counts: tuple[int, ...]  # free, per ring
    pairs: int

    def fit(self, request: int) -> Fit | None:
        return self.layout.fit(self.counts, self.pairs, request)

    def needs(self, request: int) -> str:
        return f"{in_words(self.layout, self.counts)} free, {needed(self.layout, request)}"


class Table(Struct):
    """Per state of a board: 0 if it serves the request, else the number of the reason; and the parts of its score."""

    code: NDArray[np.uint16]
    reasons: list[Reason]  # the first is for chips that are withheld: no state has it
    healthy: Floats
    group: Floats
    rank: Floats


class States:
    def __init__(self) -> None:
        self.known: list[RingState | None] = [None]
        self._numbers: dict[RingState, int] = {}
        self._by_chips: dict[tuple[Layout, int, int], int] = {}
        self._tables: dict[int, Table] = {}

    def number(self, layout: Layout, healthy: int, free: int) -> int:
        """Returns the number of a board's state, by the set of its free chips."""
        key = (layout, healthy, free)
        number = self._by_chips.get(key)
        if number is None:
            counts = layout.counts(free)
            if layout.whole:  # many small rings: their order makes no difference
                counts = tuple(sorted(counts, reverse=True))
            state = RingState(layout, healthy, counts, layout.pairs(free))
            number = self._numbers.get(state)
            if number is None:
                number = self._numbers[state] = len(self.known)
                self.known.append(state)
            self._by_chips[key] = number
        return number

    def table(self, request: int) -> Table:
        table = self._tables.get(request)
        if table is None or len(table.code) != len(self.known):
            table = self._tables[request] = self._made(request)
        return table

    def _made(self, request: int) -> Table:
        codes, worth = [0], [(0, 0, 0)]
        reasons = [Reason("chip-list-wait", "node(s) had a list of chips that is being waited for")]
        for state in self.known[1:]:
            assert state is not None
            fit = state.fit(request)
            if fit is None:
                reasons.append(Reason("chip-rings", f"node(s) had {state.needs(request)}"))
            codes.append(len(reasons) if fit is None else 0)
            worth.append((0, 0, 0) if fit is None else self._worth(state, fit))
        healthy, group, rank = (np.array(part, np.float64) for part in zip(*worth, strict=True))
        return Table(np.array(codes, np.uint16), reasons, healthy, group, rank)

    @staticmethod
    def _worth(state: RingState, fit: Fit) -> tuple[int, int, int]:
        # Faults, not sizes: a whole board of 8 is as good as a whole board of 16.
        faults = max(state.layout.size - state.healthy, 0)
        return (_HEALTHY * (MOST_CHIPS - faults), _GROUP * (MOST_GROUPS - 1 - fit.group), MOST_CHIPS - fit.rank)


def in_words(layout: Layout, counts: tuple[int, ...]) -> str:
    if layout.whole:
        unused = layout.unused(counts)
        return f"{unused} whole {layout.part}s and {sum(counts) - unused * len(layout.rings[0])} single chips"
    return f"{layout.part}s {'+'.join(map(str, counts))}" if len(counts) > 1 else f"{counts[0]} chips"


def needed(layout: Layout, request: int) -> str:
    if request == layout.size:
        return f"all {request} needed"
    if request in layout.halves:
        return f"{request} needed half and half"
    if request in layout.whole:
        return f"{request} needed in whole {layout.part}s"
    return f"{request} needed in one {layout.part}" if len(layout.rings) > 1 and request > 1 else f"{request} needed"
