"""The order of names for people."""

from __future__ import annotations

from muster.model.natural_order import natural


def test_numbers_inside_names_count_as_numbers() -> None:
    names = ["n10", "n2", "n02", "a-1-b", "a-1", "n", "n2-9", "n2-10"]
    assert sorted(names, key=natural) == ["a-1", "a-1-b", "n", "n02", "n2", "n2-9", "n2-10", "n10"]


def test_a_number_may_have_any_length() -> None:
    assert natural("n" + "9" * 10_000) < natural("n1" + "0" * 10_000)
