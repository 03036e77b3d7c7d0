"""Text in, values out: what muster reads of YAML, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.yamltext import MAX_DEPTH, Document, YamlError, dump, dump_all, load_all, load_each


def value(text: str) -> Any:
    (document,) = load_all(text, "test.yaml")
    return document.value


def refusal(text: str) -> YamlError:
    with pytest.raises(YamlError) as caught:
        load_all(text, "test.yaml")
    assert caught.value.file == "test.yaml"
    return caught.value


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("true", True), ("False", False), ("TRUE", True), ("null", None), ("~", None), ("", None),
        ("0", 0), ("-7", -7), ("+7", 7), ("12345678901234567890", 12345678901234567890),
        ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1.E-2", 0.01), ("-0.0", 0.0),
    ],
)  # fmt: skip
def test_words_and_numbers_mean_themselves(text: str, meaning: object) -> None:
    read = value(f"a: {text}\n")["a"]
    assert read == meaning
    assert type(read) is type(meaning)


@pytest.mark.parametrize(
    "text",
    [
        "yes", "no", "on", "off", "y", "0o7", "010", "-08", "0x1F", "0b11", "1_000", "1:30", "2001-01-01", "1e400",
        ".inf", "-.inf", ".nan", "nan", "1.2.3", "500m", "1Gi", "=", "e3", "+", ".", "1e", "tRUE",
    ],
)  # fmt: skip
def test_everything_else_is_text(text: str) -> None:
    assert value(f"a: {text}\n") == {"a": text}


def test_a_quoted_number_is_text() -> None:
    assert value("a: '1'\nb: \"true\"\nc: |\n  2\n") == {"a": "1", "b": "true", "c": "2\n"}


def test_a_number_of_five_thousand_digits_is_text() -> None:
    assert value("a: " + "9" * 5000) == {"a": "9" * 5000}
    assert value('{"a": ' + "9" * 5000 + "}") == {"a": "9" * 5000}


def test_keys_are_text_as_written() -> None:
    assert value("1: a\ntrue: b\n1.50: c\n") == {"1": "a", "true": "b", "1.50": "c"}


def test_tags_of_the_scalars_are_obeyed_and_others_refused() -> None:
    assert value("a: !!str 5\nb: !!int 5\nc: !!float 5\nd: ! '5'\n") == {"a": "5", "b": 5, "c": 5, "d": "5"}
    assert "does not match its tag" in refusal("a: !!int x\n").message
    assert "does not match its tag" in refusal("a: !!int true\n").message
    assert "!python" in refusal("x: 1\na: !python/object:os.system {}\n").message


def test_a_duplicate_key_is_refused_with_its_line() -> None:
    error = refusal("a: 1\nb:\n  c: 1\n  c: 2\n")
    assert (error.line, "'c'" in error.message) == (4, True)


def test_a_duplicate_key_is_refused_in_json_too() -> None:
    assert refusal('{\n "a": 1,\n "a": 2\n}').line == 3


def test_lines_point_into_the_file() -> None:
    text = "# first\n---\nkind: A\n---\n\n# note\nkind: B\nspec:\n  containers:\n  - name: x\n    image: y\n"
    first, second = load_all(text, "f")
    assert (first.line, second.line) == (3, 7)
    assert second.line_of(("spec", "containers", 0, "image")) == 11
    assert second.line_of(("spec", "containers", 0)) == 10
    assert second.line_of(("spec", "nothing", "here")) == 8
    assert second.line_of(()) == 7


def test_lines_are_known_through_aliases_and_merges() -> None:
    (document,) = load_all("base: &b\n  cpu: 1\nnode:\n  <<: *b\n  memory: 2\n", "f")
    assert document.value["node"] == {"cpu": 1, "memory": 2}
    assert document.line_of(("node", "cpu")) == 2
    assert document.line_of(("node", "memory")) == 5


def test_lines_are_known_in_json() -> None:
    first, second = load_all('{"a": 1}\n\n{\n  "b": {\n    "c": 2}}', "f")
    assert (first.value, second.value) == ({"a": 1}, {"b": {"c": 2}})
    assert (second.line, second.line_of(("b", "c"))) == (3, 5)


def test_empty_documents_are_left_out() -> None:
    assert load_all("", "f") == []
    assert load_all("# nothing\n---\n---\n# nothing\n...\n", "f") == []
    assert [d.value for d in load_all("---\na: 1\n---\n---\nnull\n", "f")] == [{"a": 1}, None]


def test_documents_end_at_their_marks_only() -> None:
    text = "%YAML 1.1\n---\na: |\n  ---\n  x\n...\nb: 2\n--- # note\nc: '--- '\n---- : 3\n"
    assert [d.value for d in load_all(text, "f")] == [{"a": "---\nx\n"}, {"b": 2}, {"c": "--- ", "----": 3}]


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm() -> None:
    first, second = load_all("\ufeffa: 1\r\n---\r\nb:\r\n  c: x\r\n", "f")
    assert (first.value, second.value, second.line_of(("b", "c"))) == ({"a": 1}, {"b": {"c": "x"}}, 4)


def test_a_bad_document_does_not_take_its_neighbours_along() -> None:
    good, bad, also_good = load_each("a: 1\n---\nb: [1\n---\nc: 3\n", "f")
    assert isinstance(good, Document) and good.value == {"a": 1}
    assert isinstance(bad, YamlError) and bad.line in (3, 4)
    assert isinstance(also_good, Document) and also_good.value == {"c": 3}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b: c\n", 1), ("x: 1\n\ty: 2\n", 2), ("a: 1\n b: 2\n", 2), ("a: 'x\n", 2), ("a: \x01\n", 1),
        ("x:\n- a\nb\n", 4),
    ],
)  # fmt: skip
def test_text_that_is_not_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    assert refusal(text).line == line


def test_a_key_must_be_text() -> None:
    assert "key" in refusal("? [1]\n: 2\n").message
    assert "key" in refusal("{{a: 1}: 2}\n").message
    assert "key is missing" in refusal("a: 1\n?\n: 2\n").message


@pytest.mark.parametrize("count", [5_000, 200_000])
def test_deep_nesting_is_a_clean_error(count: int) -> None:
    assert "deeper" in refusal("a: " + "[" * count + "]" * count).message
    assert "deeper" in refusal('{"a":' * count + "1" + "}" * count).message


def test_deep_nesting_by_indentation_is_a_clean_error() -> None:
    assert "deeper" in refusal("".join(" " * level + "a:\n" for level in range(5_000))).message


def test_the_same_depth_is_allowed_in_yaml_and_json() -> None:
    fits, too_deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    assert value(fits) == value("# YAML\n" + fits)
    assert "deeper" in refusal(too_deep).message
    assert "deeper" in refusal("# YAML\n" + too_deep).message


def test_an_alias_stands_for_a_value_of_its_own() -> None:
    read = value("a: &x {k: [1]}\nb: *x\n&y c: *y\n")
    assert read == {"a": {"k": [1]}, "b": {"k": [1]}, "c": "c"}
    read["b"]["k"].append(2)
    assert read["a"] == {"k": [1]}


def test_of_merged_mappings_the_own_key_wins_then_the_first() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc:\n  <<: [*a, *b]\n  y: 3\n"
    assert value(text)["c"] == {"x": 1, "y": 3, "z": 2}
    assert value('a: {<<: {x: 1}, "<<": text}\n') == {"a": {"x": 1, "<<": "text"}}
    assert "'<<'" in refusal("a:\n  <<: 5\n").message


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 12):
        bomb += f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]\n"
    assert "aliases expand to more than" in refusal(bomb).message


def test_aliases_cannot_nest_deeper_than_the_text_may() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300))
    assert "deeper" in refusal(text).message


def test_an_alias_without_or_inside_its_anchor_is_refused() -> None:
    assert "no anchor" in refusal("a: *x\n").message
    assert "inside" in refusal("a: &x [*x]\n").message
    assert "no anchor" in refusal("a: &x 1\n---\nb: *x\n").message


def test_json_reads_what_json_can_say() -> None:
    assert value('{"a": "\\ud83d\\ude00", "b": 1E2, "c": [1.0, null]}') == {"a": "😀", "b": 100.0, "c": [1.0, None]}
    assert value("{a: 1, b: yes}") == {"a": 1, "b": "yes"}
    assert refusal('{"a": "\\ud83d"}').line == 1
    assert value('{"a": 1e400}') == {"a": "1e400"}


def test_what_is_written_reads_back_as_the_same() -> None:
    values = [
        {"a": "1e3", "b": "yes", "c": "010", "d": "true", "e": "", "f": "~", "g": 1e3, "h": [None, True, {"x": "1.5"}]},
        {"text": "two\nlines\n", "spaces": "x \ny", "mark": "---", "1": "# no comment", "<<": "kept", "k": {}, "l": []},
        "null",
    ]
    assert [d.value for d in load_all(dump_all(values), "f")] == values
    assert value(dump(values[0])) == values[0]


def test_the_same_list_twice_is_written_twice_not_as_an_alias() -> None:
    shared = ["x"]
    assert "*" not in dump({"a": shared, "b": shared})
