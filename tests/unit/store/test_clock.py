"""Moments are written as Kubernetes writes them, and read back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.meta import seconds
from muster.store import timestamp


@pytest.mark.parametrize(
    ("moment", "text"),
    [(0, "1970-01-01T00:00:00Z"), (1769846400, "2026-01-31T08:00:00Z"), (1.5, "1970-01-01T00:00:01.500000Z")],
)
def test_a_moment_is_written_in_utc(moment: float, text: str) -> None:
    assert timestamp(moment) == text


@given(st.integers(min_value=-60_000_000_000, max_value=250_000_000_000))
def test_a_whole_second_comes_back_as_it_went(moment: int) -> None:
    assert seconds(timestamp(moment)) == moment
