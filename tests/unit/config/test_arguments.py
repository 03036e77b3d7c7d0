"""Typed readers of arguments: valid values, texts that stand for values, and reported fallbacks."""

from __future__ import annotations

from typing import Any

import pytest

from muster.config.arguments import Arguments


def given(value: Any) -> Arguments:
    return Arguments({"key": value}, owner="plugin x", file="s.yaml", line_of=lambda path: 7)


def message(arguments: Arguments) -> str:
    (finding,) = arguments.findings
    assert (finding.severity, finding.file, finding.line, finding.object) == ("warning", "s.yaml", 7, "plugin x")
    assert finding.fix
    return finding.message


def test_absent_arguments_take_the_default_without_a_finding() -> None:
    nothing = Arguments({})
    assert nothing.int("a", 1) == 1
    assert nothing.float("a", 1.5) == 1.5
    assert nothing.bool("a", True) is True
    assert nothing.text("a", "x") == "x"
    assert nothing.strings("a", ("x",)) == ("x",)
    assert dict(nothing.mapping("a")) == {}
    assert nothing.findings == []


def test_valid_values_are_taken_without_a_finding() -> None:
    arguments = Arguments(
        {"i": -3, "f": 1.5, "g": 2, "b": False, "t": "x", "s": "a, b,,a", "l": ["c", "d"], "m": {"n": 1}}
    )
    assert arguments.int("i", 1) == -3
    assert arguments.float("f", 1) == 1.5
    assert type(arguments.float("g", 1)) is float
    assert arguments.bool("b", True) is False
    assert arguments.text("t", "y") == "x"
    assert arguments.strings("s") == ("a", "b")
    assert arguments.strings("l") == ("c", "d")
    assert arguments.mapping("m").int("n", 0) == 1
    assert arguments.findings == []


@pytest.mark.parametrize(("text", "number"), [("5", 5), (" -2 ", -2)])
def test_a_number_given_as_text_is_taken_with_a_warning(text: str, number: int) -> None:
    arguments = given(text)
    assert arguments.int("key", 0) == number
    assert f"taken as the number {number}" in message(arguments)


@pytest.mark.parametrize(
    ("text", "taken"), [("true", True), ("False", False), ("1", True), ("f", False), ("yes", True), ("off", False)]
)
def test_a_boolean_given_as_text_is_taken_with_a_warning(text: str, taken: bool) -> None:
    arguments = given(text)
    assert arguments.bool("key", not taken) is taken
    assert "taken as" in message(arguments)


@pytest.mark.parametrize("bad", [1.5, 2.0, "x", "1.5", True, None, [], {}, 2**63, "1e3", "0x10"])
def test_what_is_no_whole_number_takes_the_default_with_a_warning(bad: Any) -> None:
    arguments = given(bad)
    assert arguments.int("key", 10) == 10
    assert "using 10" in arguments.findings[-1].message


@pytest.mark.parametrize("bad", ["x", True, None, [], 10**400, "1e400", "nan", ".inf"])
def test_what_is_no_number_takes_the_default_with_a_warning(bad: Any) -> None:
    arguments = given(bad)
    assert arguments.float("key", 1.2) == 1.2
    assert "using 1.2" in message(arguments)


@pytest.mark.parametrize("bad", [1, 0, "maybe", None, []])
def test_what_is_no_boolean_takes_the_default_with_a_warning(bad: Any) -> None:
    arguments = given(bad)
    assert arguments.bool("key", True) is True
    assert "using true" in message(arguments)


def test_a_number_outside_its_bounds_takes_the_default_with_a_warning() -> None:
    below, above = given(-1), given(1.5)
    assert below.int("key", 10, minimum=0) == 10
    assert "less than 0" in message(below)
    assert above.float("key", 0.5, minimum=0, maximum=1) == 0.5
    assert "more than 1" in message(above)
    assert given(0).int("key", 10, minimum=0) == 0


def test_a_text_outside_its_choices_takes_the_default_with_a_warning() -> None:
    arguments = given("Most")
    assert arguments.text("key", "LeastAllocated", choices=("MostAllocated", "LeastAllocated")) == "LeastAllocated"
    assert "one of MostAllocated, LeastAllocated" in message(arguments)
    assert given(5).text("key", "x") == "x"


def test_names_that_are_none_are_left_out_with_a_warning() -> None:
    arguments = given(["a", 5, " b "])
    assert arguments.strings("key") == ("a", "b")
    assert "holds 5" in message(arguments)
    assert given(5).strings("key", ("d",)) == ("d",)


def test_what_is_no_mapping_is_an_empty_one_with_a_warning() -> None:
    arguments = given("x")
    assert dict(arguments.mapping("key")) == {}
    assert "not a mapping" in message(arguments)
    assert given(None).mapping("key").findings == []


def test_a_nested_warning_names_its_path_and_line_and_reaches_the_outermost_arguments() -> None:
    lines = {("sra", "weight"): 12}
    arguments = Arguments({"sra": {"weight": "x"}}, file="s.yaml", line_of=lambda path: lines.get(tuple(path)))
    sra = arguments.mapping("sra")
    assert sra.line_of("weight") == 12
    assert sra.int("weight", 0) == 0
    (finding,) = arguments.findings
    assert finding.line == 12
    assert finding.message.startswith("sra.weight ")


def test_a_value_read_twice_is_warned_of_once() -> None:
    arguments = given("x")
    assert [arguments.int("key", 1), arguments.int("key", 1)] == [1, 1]
    assert len(arguments.findings) == 1


def test_a_plugin_can_add_a_warning_of_its_own() -> None:
    arguments = given({"*": 1})
    arguments.mapping("key").warn("*", "is dropped", "name a resource")
    assert message(arguments) == "key.* is dropped"
