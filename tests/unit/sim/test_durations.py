"""Durations as people write them."""

from __future__ import annotations

import pytest

from muster.sim.durations import seconds_of


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(90, 90), (1.5, 1.5), ("90", 90), ("30s", 30), ("1h30m", 5400), ("7d", 604800), ("2ms", 0.002), ("1w", 604800)],
)
def test_a_duration_is_a_number_of_seconds(given: object, seconds: float) -> None:
    assert seconds_of(given) == seconds


@pytest.mark.parametrize("given", ["", "1x", "-1s", "-3", "nan", "inf", "1h 30m", True, None, -1, float("inf"), [1]])
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        seconds_of(given)
