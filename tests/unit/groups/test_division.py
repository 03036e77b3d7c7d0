"""Division of replicas among node groups."""

from __future__ import annotations

import pytest

from muster.groups.division import by_ranges, by_weights, descending


@pytest.mark.parametrize(
    ("weights", "replicas", "parts"),
    [
        ((2, 3), 5, (2, 3)),
        ((2, 1), 2, (1, 1)),
        ((3, 1), 2, (1, 1)),  # a tie of 3/3 and 1/1 goes to the group with fewer replicas
        ((3, 2, 1), 14, (7, 5, 2)),
        ((2, 1, 1, 1), 8, (3, 2, 2, 1)),
        ((1, 1), 5, (3, 2)),
        ((170, 110, 60), 6, (3, 2, 1)),
        ((0, 1), 4, (0, 4)),
        ((0, 0), 4, (0, 0)),
        ((1, 1), 0, (0, 0)),
    ],
)
def test_weights_are_shared_out_by_webster(weights: tuple[int, ...], replicas: int, parts: tuple[int, ...]) -> None:
    names = "abcd"
    given = by_weights(dict(zip(names, weights, strict=False)), replicas)
    assert tuple(given.values()) == parts


def test_leftovers_fall_on_later_names_for_half_of_the_uids() -> None:
    uids = [f"uid-{i}" for i in range(200)]
    last = [by_weights({"a": 1, "b": 1}, 1, uid)["b"] for uid in uids]
    assert last == [int(descending(uid)) for uid in uids]
    assert 60 < sum(last) < 140
    assert by_weights({"a": 1, "b": 1}, 1)["a"] == 1


def test_a_huge_number_is_divided_at_once() -> None:
    assert by_weights({"a": 7, "b": 3}, 10**12) == {"a": 7 * 10**11, "b": 3 * 10**11}
    assert by_ranges({"a": (0, None), "b": (10**11, None)}, 10**12) == {"a": 5 * 10**11, "b": 5 * 10**11}


@pytest.mark.parametrize(
    ("ranges", "replicas", "parts"),
    [
        (((1, 3), (2, 5)), 6, (3, 3)),
        (((1, 3), (2, 5)), 2, (1, 1)),  # one less than the minimums
        (((3, 4), (3, 4), (1, 4)), 4, (2, 1, 1)),
        (((4, 8), (0, 8)), 6, (4, 2)),
        (((1, 3), (2, 5)), 20, (3, 5)),
        (((0, 0), (0, None)), 3, (0, 3)),
        (((2, None), (0, None)), 3, (2, 1)),
    ],
)
def test_ranges_are_filled_level_by_level(
    ranges: tuple[tuple[int, int | None], ...], replicas: int, parts: tuple[int, ...]
) -> None:
    given = by_ranges(dict(zip("abc", ranges, strict=False)), replicas)
    assert tuple(given.values()) == parts
