"""The search for an arrangement of pods of different sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.actions.arrangements import by_size, pack

pair = st.tuples(st.integers(0, 4), st.integers(0, 3))


@given(
    idle=st.lists(pair, min_size=1, max_size=4),
    pods=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5),
    sizes=st.tuples(pair, pair, pair),
    barred=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_it_finds_an_arrangement_exactly_if_there_is_one(
    idle: list[tuple[int, int]], pods: list[tuple[int, bool]], sizes: tuple[tuple[int, int], ...], barred: list[bool]
) -> None:
    free = np.array(idle, np.int64).T
    requests = [np.array(sizes[size], np.int64) for size, _ in pods]
    kinds = [2 * size + picky for size, picky in pods]
    everywhere, some = np.ones(len(idle), np.bool_), ~np.array(barred[: len(idle)], np.bool_)
    usable = [some if picky else everywhere for _, picky in pods]

    def works(at: tuple[int, ...]) -> bool:
        left = free.copy()
        for request, node in zip(requests, at, strict=True):
            left[:, node] -= request
        return bool((left >= 0).all()) and all(mask[node] for mask, node in zip(usable, at, strict=True))

    found = pack(requests, kinds, free, usable)
    if found is None:
        assert not any(works(at) for at in product(range(len(idle)), repeat=len(pods)))
    else:
        assert works(tuple(found))


def test_it_gives_up_when_the_budget_is_used_up() -> None:
    one = [np.array([1], np.int64)]
    everywhere = [np.ones(2, np.bool_)]
    assert pack(one * 2, [0, 0], np.array([[1, 1]]), everywhere * 2, budget=1) is None
    assert pack(one * 2, [0, 0], np.array([[1, 1]]), everywhere * 2) == [0, 1]


def test_the_largest_share_comes_first() -> None:
    requests = [np.array([1, 0]), np.array([0, 3]), np.array([2, 0])]
    assert by_size(requests, [0, 1, 2], np.array([10, 4])) == [1, 2, 0]


def test_what_a_way_that_failed_had_taken_is_free_for_the_next() -> None:
    """3 goes to the node of 4 first, where 2, 2 and 2 then have no place; on the node of 5 everything fits."""
    requests = [np.array([size]) for size in (3, 2, 2, 2)]
    found = pack(requests, [0, 1, 1, 1], np.array([[5, 4]]), [np.ones(2, np.bool_)] * 4)
    assert found is not None and found[0] == 0 and sorted(found[1:]) == [0, 1, 1]
