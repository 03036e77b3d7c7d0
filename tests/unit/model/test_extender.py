"""Requests of kube-scheduler that are read with the names of the nodes at hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.model.extender import ExtenderArgs, KnownNames, WireError, read_args

KNOWN = ("node-1", "node-2", "knoten-ä", 'node-"3"')


def outcome(body: bytes, known: KnownNames | None) -> ExtenderArgs | str:
    try:
        return read_args(body, known)
    except WireError as fault:
        return str(fault)


values = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.sampled_from(KNOWN), max_size=3)
lists = st.lists(st.sampled_from(KNOWN) | st.text(max_size=3) | values, max_size=5) | values


@given(lists, st.booleans(), st.sampled_from(["NodeNames", "nodenames"]))
@example(["node-1", "node-2", "node-1"], False, "NodeNames")
@example([""], True, "NodeNames")
def test_known_names_change_nothing_of_what_is_read(names: object, escaped: bool, field: str) -> None:
    body = json.dumps({"Pod": {"metadata": {"name": "a"}}, field: names}, ensure_ascii=escaped).encode()
    assert outcome(body, KnownNames(KNOWN)) == outcome(body, None)


@pytest.mark.parametrize("names", [b'["node-1"', b'["\xff"]', b'["node-1",]', b"[" * 2000, b'["\\ud800"]'])
def test_malformed_lists_are_the_same_errors(names: bytes) -> None:
    body = b'{"Pod":{},"NodeNames":' + names + b"}"
    with pytest.raises(ValueError) as usual:
        read_args(body)
    with pytest.raises(type(usual.value)) as found:
        read_args(body, KnownNames(KNOWN))
    assert str(found.value) == str(usual.value)


def test_names_that_are_known_are_not_made_again() -> None:
    names = read_args(json.dumps({"Pod": {}, "NodeNames": KNOWN}).encode(), KnownNames(KNOWN)).names
    assert all(one is other for one, other in zip(names, KNOWN, strict=True))
    assert read_args(b'{"Pod":{},"NodeNames":["node-9"]}', KnownNames(())).names == ["node-9"]
