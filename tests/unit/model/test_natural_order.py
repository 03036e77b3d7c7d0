"""Names are sorted as people count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.model.natural_order import natural


def test_numbers_count_as_numbers() -> None:
    names = ["n10", "n2", "rack-1/n10", "rack-1/n9", "n1", "n02", "n", "a100b3", "a100b20"]
    assert sorted(names, key=natural) == [
        "a100b3", "a100b20", "n", "n1", "n02", "n2", "n10", "rack-1/n9", "rack-1/n10"
    ]  # fmt: skip


@given(st.lists(st.text("ab019-/"), max_size=8))
def test_it_is_a_total_order(names: list[str]) -> None:
    assert sorted(sorted(names), key=natural) == sorted(sorted(names, reverse=True), key=natural)
    assert len({natural(name) for name in names}) == len(set(names))
