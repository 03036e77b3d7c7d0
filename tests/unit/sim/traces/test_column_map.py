"""The column map."""

from __future__ import annotations

import pytest

from muster.model.finding import InputError
from muster.sim.traces.column_map import KEYS, Key, parse_columns, resolve


def test_a_key_has_a_unit_and_says_whether_it_is_of_one_pod() -> None:
    assert KEYS["memory_gib_per_pod"] == Key("memory", 2.0**30, per_pod=True)
    assert KEYS["cpu"] == Key("cpu", 1000.0) and KEYS["submit_ms"] == Key("submit", 0.001)
    assert "submit_per_pod" not in KEYS


def test_the_option_is_read() -> None:
    assert parse_columns("submit=timestamp, gpus = num_gpus") == {"submit": "timestamp", "gpus": "num_gpus"}


@pytest.mark.parametrize(("text", "message"), [("a", "KEY=COLUMN"), ("a=b,", "KEY=COLUMN"), ("a=b,a=c", "twice")])
def test_an_option_that_is_no_map_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_columns(text)


def test_texts_of_two_columns_are_joined_and_numbers_are_not() -> None:
    assert resolve({"name": "a+b"}, ["a", "b"], required=(), file="f")["name"] == (Key("name"), ("a", "b"))
    assert resolve({"name": "a+b"}, ["a+b"], required=(), file="f")["name"] == (Key("name"), ("a+b",))
    with pytest.raises(InputError, match="has one column"):
        resolve({"gpus": "a+b"}, ["a", "b"], required=(), file="f")


def test_a_column_is_missing_only_if_it_was_asked_for() -> None:
    assert resolve({"gpus": "n"}, ["m"], required=(), file="f") == {}
    with pytest.raises(InputError, match="f has no column 'n'"):
        resolve({"gpus": "n"}, ["m"], required=("gpus",), file="f")
