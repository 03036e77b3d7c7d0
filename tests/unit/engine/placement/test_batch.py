"""Runs of equal tasks in one step: the best node again and again, ties by index, as long as there is capacity."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from muster.engine.placement.batch import best_heads, picks

NONE = -np.inf


def run(count: int, *scores: list[float]) -> list[int]:
    """`scores[n][j]` is what node n is worth with j tasks of the run on it; it holds as many as it has scores."""

    def copies(positions: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        found = [scores[p][k] if k < len(scores[p]) else NONE for p, k in zip(positions, j, strict=True)]
        return np.array(found, np.float64)

    key = np.array([row[0] if row else NONE for row in scores], np.float64)
    return picks(key, count, copies).tolist()


def test_the_best_node_is_taken_until_another_is_better() -> None:
    assert run(5, [10, 7, 4], [9, 8, 1]) == [0, 1, 1, 0, 0]


def test_ties_go_to_the_first_node() -> None:
    assert run(4, [5, 5], [5, 5], [5, 5]) == [0, 0, 1, 1]
    assert run(3, [4, 5], [5, 4], [5, 5]) == [1, 2, 2]


def test_a_node_whose_score_rises_is_taken_again_before_those_it_has_passed() -> None:
    assert run(4, [5, 1, 9, 9], [4, 4], [2]) == [0, 1, 1, 2]
    assert run(6, [5, 1, 9, 9], [4, 4], [2]) == [0, 1, 1, 2, 0, 0]


def test_full_nodes_and_nodes_without_capacity_are_left_out() -> None:
    assert run(9, [3], [], [8, 8]) == [2, 2, 0]
    assert run(3) == [] and run(3, [], []) == []


def test_one_task_takes_the_first_of_the_best() -> None:
    assert run(1, [1], [7], [7]) == [1]


@pytest.mark.parametrize("count", [3, 17, 70, 200, 301])
def test_long_runs_on_few_nodes_fill_them_in_order(count: int) -> None:
    """More tasks than one look at the nodes' next rows covers."""
    falling = [[300.0 - j for j in range(150)], [299.5 - j for j in range(150)]]
    assert run(count, *falling) == [i % 2 for i in range(min(count, 300))]


def test_a_plateau_is_left_only_when_it_is_used_up() -> None:
    assert run(100, [1.0] * 90, [1.0] * 5, [2.0] * 7) == [2] * 7 + [0] * 90 + [1] * 3


def heads(count: int, *key: float) -> list[int]:
    return best_heads(np.array(key, np.float64), count).tolist()


def test_heads_of_one_value_are_the_first_ones() -> None:
    assert heads(2, 1, 3, 3, 3) == [1, 2]
    assert heads(3, 1, 3, 3, 3) == [1, 2, 3]


def test_heads_of_two_values_are_the_better_then_the_first() -> None:
    assert heads(3, 1, 2, 3, 2, 2) == [2, 1, 3]
    assert heads(4, 2, NONE, 2, NONE) == [0, 2]


def test_heads_of_many_values_are_in_order_also_where_most_are_cut_off() -> None:
    assert heads(4, 1, 5, 4, 3, 2) == [1, 2, 3, 4]
    assert heads(3, *range(40)) == [39, 38, 37]
    assert heads(3, 0, *([1.0] * 30), 2, 3) == [32, 31, 1]
    assert heads(4, 0, 7, *([1.0] * 30), 2, 3) == [1, 33, 32, 2]
    assert heads(2, NONE, NONE) == [] and heads(2) == []
