"""A run placed in one vector step is the run placed one at a time, whatever the scores do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.engine.placement.batch import best_heads, picks
from strategies.profiles import examples, times

Scores = list[list[float]]  # per node: its score with 0, 1, 2 … tasks of the run on it; past its capacity there is none


def one_at_a_time(scores: Scores, count: int) -> list[int]:
    """The best node again and again, the first of equal ones."""
    on = [0] * len(scores)
    order: list[int] = []
    while len(order) < count:
        heads = [row[n] if n < len(row) else -np.inf for row, n in zip(scores, on, strict=True)]
        best = max(range(len(heads)), key=lambda i: heads[i], default=-1)
        if best < 0 or heads[best] == -np.inf:
            break
        on[best] += 1
        order.append(best)
    return order


def in_one_step(scores: Scores, count: int) -> list[int]:
    def copies(positions: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array(
            [scores[p][k] if k < len(scores[p]) else -np.inf for p, k in zip(positions, j, strict=True)], np.float64
        )

    key = np.array([row[0] if row else -np.inf for row in scores], np.float64)
    found = picks(key, count, copies).tolist()
    bounded = picks(key, count, copies, lambda at: max(len(scores[p]) for p in at.tolist()))
    assert bounded.tolist() == found
    return found


rows = st.lists(st.integers(0, 4).map(float), max_size=9)


@given(st.lists(rows, max_size=7), st.integers(1, 24))
@examples(600)
def test_one_step_is_one_at_a_time(scores: Scores, count: int) -> None:
    assert in_one_step(scores, count) == one_at_a_time(scores, count)


@given(st.lists(st.lists(st.floats(-1e9, 1e9), max_size=6), max_size=6), st.integers(1, 12))
@examples(200)
def test_scores_may_be_any_numbers(scores: Scores, count: int) -> None:
    assert in_one_step(scores, count) == one_at_a_time(scores, count)


def saw_tooth(dice: np.random.Generator) -> Scores:
    """Scores that rise and fall as a node fills: steps of whole points, teeth, masks, capacities from none to many."""
    nodes = int(dice.integers(1, 40))
    levels = int(dice.choice([1, 2, 5, 50]))
    most = int(dice.choice([1, 3, 12, 40]))
    scores = []
    for _ in range(nodes):
        capacity = 0 if dice.random() < 0.15 else int(dice.integers(0, most + 1))
        slope = float(dice.choice([-1.0, -0.25, 0.0, 0.5]))
        start = float(dice.integers(0, levels))
        teeth = dice.integers(0, 1 + int(dice.choice([0, 1, 4])), capacity)
        scores.append([start + slope * j + float(tooth) for j, tooth in enumerate(teeth.tolist())])
    return scores


@pytest.mark.parametrize("seed", range(10))
def test_saw_teeth_masks_and_rooms(seed: int) -> None:
    dice = np.random.default_rng(seed)
    for _ in range(times(400)):
        scores = saw_tooth(dice)
        count = int(dice.choice([1, 2, 3, 7, 20, 64, 200]))
        assert in_one_step(scores, count) == one_at_a_time(scores, count)


@given(st.lists(st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 2.5, 3.0]), max_size=60), st.integers(1, 70))
@examples(400)
def test_heads_are_the_largest_then_the_first(keys: list[float], count: int) -> None:
    wanted = sorted((i for i, key in enumerate(keys) if key > -np.inf), key=lambda i: (-keys[i], i))[:count]
    assert best_heads(np.array(keys, np.float64), count).tolist() == wanted
