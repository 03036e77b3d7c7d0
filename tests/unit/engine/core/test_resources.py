"""Sums of amounts beyond 64 bits are exact."""

from __future__ import annotations

import numpy as np

from muster.engine.core.resources import exact_sum


def test_a_sum_that_does_not_fit_64_bits_is_exact() -> None:
    assert exact_sum(np.full(1000, 2**60 + 1, np.int64)) == 1000 * (2**60 + 1)
    assert exact_sum(np.array([-5, 2**40, -(2**40)], np.int64)) == -5
