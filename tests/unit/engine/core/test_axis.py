"""Amounts for people, and sums beyond 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

from muster.engine.core.axis import exact_sum, show


@pytest.mark.parametrize(
    ("name", "amount", "said"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 3 * 10**12, "3000000000"),
        ("cpu", -2000, "-2"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 3 << 60, "3Ei"),
        ("memory", 0, "0"),
        ("pods", 110, "110"),
        ("ephemeral-storage", 1000 << 40, "1Ti"),
        ("hugepages-2Mi", 2000 << 20, "2Mi"),
        ("nvidia.com/gpu", 8000, "8"),
    ],
)
def test_amounts_are_shown_as_one_would_write_them(name: str, amount: int, said: str) -> None:
    assert show(name, amount) == said


def test_a_sum_that_does_not_fit_64_bits_is_exact() -> None:
    assert exact_sum(np.full(1000, 2**60 + 1, np.int64)) == 1000 * (2**60 + 1)
    assert exact_sum(np.array([-5, 2**40, -(2**40)], np.int64)) == -5
