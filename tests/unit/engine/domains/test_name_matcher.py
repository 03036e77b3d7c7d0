"""A regexMatch is a regular expression of Go: what matches, what is refused, and that matching takes linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.domains.domain_sources import name_matcher
from strategies.profiles import examples


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("^node-[0-9]+$", "node-12", True), ("^node-[0-9]+$", "a-node-12", False), ("node-1", "node-12", True),
        ("", "any", True), ("a||b", "z", True), ("^(a|b){2,3}$", "abab", False), ("^(a|b){2,}$", "abab", True),
        ("a{,2}", "a{,2}", True), (r"\Qa.b\E", "axb", False), (r"\Qa.b", "a.b", True), ("(?i)NODE", "node", True),
        ("N(?i:O)de", "Node", True), ("(?i:n)ode", "NODE", False), ("[]a]", "]", True), ("[^]a]", "]", False),
        (r"[\d-]", "-", True), (r"[^\d]", "7", False), ("[[:alpha:]]9", "x9", True), ("[[:^alpha:]]", "x", False),
        (r"\x41\x{42}", "AB", True), (r"\bgpu\b", "rack-gpu-1", True), (r"\Bpu", "gpu", True), (r"\Ax\z", "xx", False),
        ("(?P<rack>r[0-9])", "r7", True), ("a+?b", "aab", True), ("(?s-i:.)", "x", True), (r"\W", "a.b", True),
        (r"\p{Greek}", "α", True), ("(?P<1>a)", "a", True), (r"\\C", r"\C", True), ("^node-[0-9]+$", "node-1\n", False),
    ],
)  # fmt: skip
def test_what_matches(text: str, name: str, found: bool) -> None:
    assert name_matcher(text)(name) is found


@pytest.mark.parametrize(
    "text",
    [
        "a**", "*a", "(?=a)b", "(?!a)b", "(?<=a)b", r"(a)\1", "(?P<n>a)(?P=n)", "(a", "a)", "[a", "[z-a]", "a\\",
        "a{1001}", "a{3,2}", "[[:foo:]]", r"\xzz", "(((a{100}){100}){100})", r"\C", r"\\\C", "(?x)a", r"\Z",
        "a" * 2001, "\ud800",
    ],
)  # fmt: skip
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        name_matcher(text)


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(a|a?)+b$", "(.*)(.*)(.*)(.*)(.*)(.*)b$", "(a{0,30}){0,30}b"])
def test_no_expression_takes_long(text: str) -> None:
    """Python's own would not end on these."""
    assert name_matcher(text)("a" * 250 + "!") is False


_ATOMS = ["a", "b", ".", "[ab]", "[^a]", r"\d", "-", "(a|b)", "(?:ab)", "^", r"\b", r"\w", "[a-c0]", r"\.", "a|"]
_PART = st.tuples(st.sampled_from(_ATOMS), st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"]))


@given(st.lists(_PART, max_size=5), st.text("abcA0-.", max_size=6))
@examples(300)
def test_it_agrees_with_python_where_both_know_the_expression(parts: list[tuple[str, str]], name: str) -> None:
    text = "".join(atom if atom in ("^", r"\b", "a|") else atom + times for atom, times in parts)
    assert name_matcher(text)(name) is (re.search(text, name, re.ASCII) is not None)
