"""A YAML document that is read entry by entry means what it means as a whole, with the same errors and lines."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from muster.model.yamltext import YamlError, load_each
from strategies.profiles import examples

LINES = [
    "a: 1", "a: 2", "b: {c: 1,", "c: 2}", "d: 'x", "d: x'", "  y'", 'e: "x', 'f: z"', "g: |", "g: |+", "h: >-",
    "  text", "    deeper", "", " ", "- x", "  - y", "i:", "  j: 1", "  j: 2", "k: &q 1", "l: *q", "m: [&r x, *r]",
    "# comment", "  # comment", "--- ", "--- n: 1", "...", "%YAML 1.1", "o: x\u2028p: y", "q: x\rr: y", "? s", ": t",
    "\tu: 1", " v: 1", "w: !!str 1", "w: !!int x", "<<: {x: 1}", "y: 1.50", "y: 1e400", "z: 99999999999999999999",
    "A: 010", "B: ~", "C: \x85D: 1", "E: \x01", "F:x", "G : 1", '"H": 1', "I: x # comment", "J: {}", "K: é",
    "L: \ud800",
]  # fmt: skip


def read(text: str, *, entries: bool) -> list[object]:
    decode = (lambda *_: None) if entries else None
    found = list(load_each(text, "file", decode))
    return [str(one) if isinstance(one, YamlError) else (one.value, one.line, one.line_of(["i", "j"])) for one in found]


@examples(2000)
@given(st.lists(st.sampled_from(LINES), max_size=8), st.booleans())
@example(["g: |+", "", "", "a: 1"], True)
@example(["b: {c: 1,", "c: 2}"], True)
def test_a_document_that_is_read_entry_by_entry_means_what_it_means_as_a_whole(lines: list[str], end: bool) -> None:
    text = "\n".join([*lines, ""] if end else lines)
    whole, entries = read(text, entries=False), read(text, entries=True)
    assert repr(entries) == repr(whole)
