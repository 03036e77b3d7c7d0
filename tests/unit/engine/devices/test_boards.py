"""Layouts: every state of a board against a reading of the design that knows no table."""

from __future__ import annotations

from itertools import product

import pytest

from builders.ascend import brute
from muster.engine.devices.boards import (
    ASCEND_910,
    ASCEND_910B_8,
    ASCEND_910B_16,
    ASCEND_910C,
    CARD,
    HALF,
    ChipListError,
    Layout,
    ids_of,
    mask_of,
    read_chips,
    write_chips,
)

STATES = list(product(range(5), range(5)))


@pytest.mark.parametrize("request_", [1, 2, 4, 8])
@pytest.mark.parametrize("state", STATES)
def test_group_and_ring_of_every_state(state: tuple[int, int], request_: int) -> None:
    fit, read = ASCEND_910.fit(state, 0, request_), brute(*state, request_)
    assert (fit is None) == (read is None)
    if fit is not None and read is not None:
        assert (fit.group, fit.ring) == (read[0], read[2])


@pytest.mark.parametrize("request_", [1, 2, 4, 8])
def test_ranks_follow_the_other_ring_in_each_group(request_: int) -> None:
    by_rank: dict[tuple[int, int], set[int]] = {}
    for state in STATES:
        fit, read = ASCEND_910.fit(state, 0, request_), brute(*state, request_)
        if fit is not None and read is not None:
            by_rank.setdefault((fit.group, fit.rank), set()).add(read[1])
    for (group, rank), others in by_rank.items():
        assert len(others) == 1
        if rank:
            assert min(others) > max(by_rank[group, rank - 1])


@pytest.mark.parametrize(
    ("state", "request_", "place"),
    [
        ((3, 1), 1, "A3"), ((2, 3), 1, "B1"), ((2, 4), 1, "C2"), ((4, 4), 1, "D1"), ((0, 3), 1, "B0"),
        ((3, 2), 2, "A3"), ((4, 3), 2, "B2"), ((3, 3), 2, "C2"), ((4, 4), 4, "A4"), ((4, 4), 8, "A0"),
    ],
)  # fmt: skip
def test_places_as_the_table_has_them(state: tuple[int, int], request_: int, place: str) -> None:
    fit = ASCEND_910.fit(state, 0, request_)
    assert fit is not None and f"{fit.letter}{fit.rank}" == place


@pytest.mark.parametrize("request_", [1, 2, 4, 8])
def test_picked_chips_are_the_lowest_of_the_best_ring(request_: int) -> None:
    for free in range(256):
        left, right = (free & 15).bit_count(), (free >> 4).bit_count()
        read = brute(left, right, request_)
        rings = {0: range(4), 1: range(4, 8), -1: range(8)}
        want = [i for i in rings[read[2]] if free >> i & 1][:request_] if read is not None else []
        assert ids_of(ASCEND_910.pick(free, request_)) == want


@pytest.mark.parametrize("request_", [3, 5, 6, 7, 16])
def test_a_size_that_the_board_does_not_serve_never_fits(request_: int) -> None:
    assert ASCEND_910.fit((4, 4), 0, request_) is None
    assert ASCEND_910.pick(255, request_) == 0


def test_a_full_mesh_gives_any_number_and_prefers_the_fewest_free() -> None:
    groups = [fit.group if (fit := ASCEND_910B_8.fit((free,), 0, 3)) else None for free in range(9)]
    assert groups == [None, None, None, 0, 1, 2, 3, 4, 5]
    assert ids_of(ASCEND_910B_8.pick(0b11010110, 3)) == [1, 2, 4]


def test_sixteen_chips_take_up_to_eight_in_one_ring() -> None:
    assert ASCEND_910B_16.sizes == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
    six_and_two = mask_of([0, 1, 2, 3, 4, 5, 8, 9])
    assert ASCEND_910B_16.pick(six_and_two, 8) == 0
    assert ids_of(ASCEND_910B_16.pick(six_and_two, 2)) == [8, 9]


def test_ten_of_sixteen_are_taken_at_matching_positions() -> None:
    free = mask_of([0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 15])
    assert ASCEND_910B_16.pairs(free) == 5
    assert ids_of(ASCEND_910B_16.pick(free, 10)) == [1, 2, 3, 4, 5, 9, 10, 11, 12, 13]
    assert ASCEND_910B_16.pick(free, 12) == 0
    assert ids_of(ASCEND_910B_16.pick(ASCEND_910B_16.everything, 16)) == list(range(16))


def test_a_server_with_cards_gives_one_or_two_and_prefers_the_one_in_use() -> None:
    assert CARD.sizes == (1, 2)
    assert [fit and fit.group for fit in (CARD.fit((free,), 0, 1) for free in range(3))] == [None, 0, 1]
    assert CARD.pick(0b01, 2) == 0 and CARD.pick(0b11, 2) == 0b11


@pytest.mark.parametrize("request_", [1, 2, 4])
def test_half_a_server_is_one_ring_of_the_design(request_: int) -> None:
    assert HALF.sizes == (1, 2, 4)
    for free in range(16):
        ring = ASCEND_910.fit((free.bit_count(), 0), 0, request_)
        fit = HALF.fit((free.bit_count(),), 0, request_)
        assert (fit and fit.group) == (ring and ring.group)
        assert HALF.pick(free, request_) == ASCEND_910.pick(free, request_)


def test_modules_of_two_give_one_chip_or_whole_modules() -> None:
    assert ASCEND_910C.sizes == (1, 2, 4, 6, 8, 10, 12, 14, 16)
    free = mask_of([0, 1, 3, 4, 5, 9, 12, 13])
    assert ids_of(ASCEND_910C.pick(free, 1)) == [3]
    assert ids_of(ASCEND_910C.pick(free, 4)) == [0, 1, 4, 5]
    assert ids_of(ASCEND_910C.pick(free, 6)) == [0, 1, 4, 5, 12, 13]
    assert ASCEND_910C.pick(free, 8) == 0
    assert ids_of(ASCEND_910C.pick(ASCEND_910C.everything, 16)) == list(range(16))


def test_modules_of_two_prefer_the_board_with_fewer_chips_left() -> None:
    boards = [(2, 2, 0, 0, 0, 0, 0, 0), (2, 2, 1, 0, 0, 0, 0, 0), (2,) * 8]
    ranks = [fit.rank for counts in boards if (fit := ASCEND_910C.fit(counts, 0, 4))]
    assert ranks == sorted(set(ranks)) and len(ranks) == 3


def test_pairs_of_chips_are_another_declaration() -> None:
    pairs = Layout("pairs", ((0, 1), (2, 3), (4, 5), (6, 7)), {1: (1, 2), 2: (2,)})
    assert ids_of(pairs.pick(mask_of([0, 1, 3, 4, 5]), 1)) == [3]
    assert ids_of(pairs.pick(mask_of([0, 3, 4, 5]), 2)) == [4, 5]
    assert ids_of(pairs.pick(255, 8)) == list(range(8))


def test_chip_lists_are_read_and_written() -> None:
    assert ids_of(read_chips("Ascend910-7,Ascend910-0,Ascend910-3", "Ascend910-", 8)) == [0, 3, 7]
    assert read_chips("", "Ascend910-", 8) == 0
    assert write_chips(mask_of([5, 4]), "Ascend910-") == "Ascend910-4,Ascend910-5"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Ascend910-0, Ascend910-1", "' Ascend910-1' is not"),
        ("0,1", "'0' is not"),
        ("Ascend310-0", "'Ascend310-0' is not"),
        ("Ascend910-x", "'Ascend910-x' is not"),
        ("Ascend910--1", "'Ascend910--1' is not"),
        ("Ascend910-²", "is not"),
        ("Ascend910-0,", "'' is not"),
        ("Ascend910-8", "not one of the 8 chips"),
        (f"Ascend910-{'9' * 5000}", "not one of the 8 chips"),
        ("Ascend910-1,Ascend910-1", "named twice"),
    ],
)
def test_a_list_that_cannot_be_read_gives_the_reason(text: str, why: str) -> None:
    with pytest.raises(ChipListError, match=why):
        read_chips(text, "Ascend910-", 8)
