"""Devices whose wiring matters: boards as data, sets of chips as integers, and which chips serve a request best.

A `Layout` declares which chips form a ring, which requests a board serves, and for each request how many chips a ring
had best have free, the best number first. Everything else follows from that declaration: whether a board can serve a
request, how good a choice it is, and which chips are taken. A set of chips is an integer with bit i for chip i. A new
kind of board is an entry of `LAYOUTS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from msgspec import Struct


class Fit(Struct, frozen=True):
    """How a board serves a request: its group (0 = A, the best), its place in the group, the ring used."""

    group: int
    rank: int
    ring: int  # −1: more than one

    @property
    def letter(self) -> str:
        return chr(ord("A") + self.group)


@dataclass(frozen=True, eq=False)
class Layout:
    """A board. `order[k]`: the numbers of free chips that let one ring serve a request of k, the best first."""

    name: str
    rings: tuple[tuple[int, ...], ...]
    order: Mapping[int, tuple[int, ...]]
    halves: tuple[int, ...] = ()  # requests served by both rings alike, at matching positions
    whole: tuple[int, ...] = ()  # requests served by whole rings only, as many as it takes
    each_pod: bool = False  # a job may have any number of pods of any size served (design: one, or whole boards)
    part: str = "ring"  # what users call a ring of this board

    @cached_property
    def size(self) -> int:
        return sum(len(ring) for ring in self.rings)

    @cached_property
    def everything(self) -> int:
        return (1 << self.size) - 1

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The requests that one pod may make."""
        return tuple(sorted({*self.order, *self.halves, *self.whole, self.size}))

    @cached_property
    def _masks(self) -> tuple[int, ...]:
        return tuple(mask_of(ring) for ring in self.rings)

    def counts(self, chips: int) -> tuple[int, ...]:
        """How many of the chips are in each ring."""
        return tuple((chips & ring).bit_count() for ring in self._masks)

    def unused(self, counts: tuple[int, ...]) -> int:
        """How many rings have all their chips free."""
        return sum(n == len(ring) for n, ring in zip(counts, self.rings, strict=True))

    def pairs(self, chips: int) -> int:
        """At how many positions all rings have a chip of the set; 0 where the layout has no use for it."""
        return len(self._matching(chips)) if self.halves else 0

    def _matching(self, chips: int) -> list[int]:
        columns = [mask_of(column) for column in zip(*self.rings, strict=True)]
        return [column for column in columns if chips & column == column]

    def fit(self, counts: tuple[int, ...], pairs: int, request: int) -> Fit | None:
        """How a board with so many free chips in its rings serves the request; None if it cannot."""
        found = self._choice(counts, pairs, request)
        if found is None:
            return None
        group, rest, ring = found
        return Fit(group, self._ranks(request)[group].index(rest), ring)

    def _choice(self, counts: tuple[int, ...], pairs: int, request: int) -> tuple[int, int, int] | None:
        """(group, chips free in the other rings, ring). Equal rings: the first."""
        free = sum(counts)
        if request in self.order:
            best = self.order[request]
            usable = [(best.index(n), free - n, ring) for ring, n in enumerate(counts) if n in best]
            return min(usable, default=None)
        if request == self.size:
            return (0, 0, -1) if free == self.size else None
        if request in self.halves and pairs * len(self.rings) >= request:
            return 0, free - request, -1
        if request in self.whole and self.unused(counts) * len(self.rings[0]) >= request:
            return 0, free - request, -1
        return None

    @cached_property
    def _rank_tables(self) -> dict[int, dict[int, list[int]]]:
        return {}

    def _ranks(self, request: int) -> dict[int, list[int]]:
        """Group → the numbers of chips that may be free in the other rings, fewer first: the design's `3~[0,2,3,4]`."""
        tables = self._rank_tables
        if request not in tables:
            found: dict[int, set[int]] = {}
            for counts in product(*(range(len(ring) + 1) for ring in self.rings)):
                choice = self._choice(counts, min(counts), request)
                if choice is not None:
                    found.setdefault(choice[0], set()).add(choice[1])
            tables[request] = {group: sorted(rests) for group, rests in found.items()}
        return tables[request]

    def pick(self, free: int, request: int) -> int:
        """The chips to take: of the best ring, the lowest ids. 0 if the request cannot be served."""
        choice = self._choice(self.counts(free), self.pairs(free), request)
        if choice is None:
            return 0
        ring = choice[2]
        if ring >= 0:
            return lowest(free & self._masks[ring], request)
        if request == self.size:
            return free
        if request in self.whole:
            parts, each = [ring for ring in self._masks if free & ring == ring], len(self.rings[0])
        else:
            parts, each = self._matching(free), len(self.rings)
        chosen = 0
        for part in parts[: request // each]:
            chosen |= part
        return chosen


def mask_of(ids: tuple[int, ...] | list[int]) -> int:
    mask = 0
    for i in ids:
        mask |= 1 << i
    return mask


def ids_of(chips: int) -> list[int]:
    return list(_ids(chips))


def _ids(chips: int) -> Iterator[int]:
    while chips:
        low = chips & -chips
        yield low.bit_length() - 1
        chips ^= low


def lowest(chips: int, count: int) -> int:
    """The `count` lowest of the chips."""
    taken = 0
    for _ in range(count):
        low = chips & -chips
        taken |= low
        chips ^= low
    return taken


class ChipListError(ValueError):
    """A list of chips that cannot be read; the message gives the fault."""


@lru_cache(maxsize=1 << 16)
def read_chips(text: str, prefix: str, size: int) -> int:
    """`Ascend910-0,Ascend910-2` → chips. Spaces, bare numbers, ids off the board and repeated ids are faults."""
    chips = 0
    for entry in text.split(",") if text else ():
        digits = entry.removeprefix(prefix)
        if digits == entry or not (digits.isascii() and digits.isdigit()):
            raise ChipListError(f"{entry[:32]!r} is not {prefix}<number>")
        # A number with more digits than any board has chips is off the board, however long it is.
        number = int(digits) if len(digits) < 8 else size
        if number >= size:
            raise ChipListError(f"{entry[:32]} is not one of the {size} chips of the board")
        if chips >> number & 1:
            raise ChipListError(f"{entry} is named twice")
        chips |= 1 << number
    return chips


def write_chips(chips: int, prefix: str) -> str:
    return ",".join(f"{prefix}{i}" for i in _ids(chips))


# Ascend 910 (the design): two rings of four. For a request the even remainder comes first, then the smaller one.
ASCEND_910 = Layout("910", ((0, 1, 2, 3), (4, 5, 6, 7)), {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)})
# Half of such a server: one ring, with the same order.
HALF = Layout("half", ((0, 1, 2, 3),), {1: (1, 3, 2, 4), 2: (2, 4, 3)})
# A server with two Atlas 300T cards, which are not wired to each other.
CARD = Layout("card", ((0, 1),), {1: (1, 2)})
# 910B with eight chips, all wired to all: any number, the fewest free that suffice first.
ASCEND_910B_8 = Layout("910B-8", (tuple(range(8)),), {k: tuple(range(k, 9)) for k in range(1, 9)}, each_pod=True)
# 910B with sixteen: two rings of eight; more than eight are taken half and half, at the same positions.
ASCEND_910B_16 = Layout(
    "910B-16",
    (tuple(range(8)), tuple(range(8, 16))),
    {k: tuple(range(k, 9)) for k in range(1, 9)},
    halves=(10, 12, 14),
    each_pod=True,
)
# 910C: eight modules of two chips. A single chip comes best from a module in use, an even number is whole modules.
ASCEND_910C = Layout(
    "910C",
    tuple((i, i + 1) for i in range(0, 16, 2)),
    {1: (1, 2)},
    whole=tuple(range(2, 16, 2)),
    each_pod=True,
    part="module",
)
LAYOUTS: dict[str, Layout] = {
    layout.name: layout for layout in (ASCEND_910, HALF, CARD, ASCEND_910B_8, ASCEND_910B_16, ASCEND_910C)
}
# Enough for any layout: how many groups and places in a group there can be, so that scores of all boards compare.
MOST_GROUPS = max(max(len(order) for order in layout.order.values()) for layout in LAYOUTS.values())
MOST_CHIPS = max(layout.size for layout in LAYOUTS.values())
