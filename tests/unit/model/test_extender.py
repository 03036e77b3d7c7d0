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
pods = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": st.just("a")})}) | values
whole = st.just({"items": [{"metadata": {"name": "node-1"}}]}) | values
NAMES = st.lists(st.sampled_from(KNOWN), max_size=5)
USUAL = {"Pod": {"metadata": {"name": "a", "uid": "u"}}, "Nodes": None, "NodeNames": list(KNOWN)}


@given(
    st.dictionaries(st.sampled_from(["Pod", "pod", "PODS"]), pods),
    st.dictionaries(st.sampled_from(["Nodes", "nodes"]), whole),
    st.dictionaries(st.sampled_from(["NodeNames", "nodenames", "NODENAMES"]), NAMES | lists),
    st.booleans(),
)
@example(USUAL, {}, {}, False)
@example({"Pod": {}}, {"Nodes": {"items": []}}, {"NodeNames": ["node-1"]}, False)
@example({"Pod": None}, {}, {"NodeNames": [""]}, True)
def test_known_names_change_nothing_of_what_is_read(
    pod: dict[str, object], nodes: dict[str, object], names: dict[str, object], escaped: bool
) -> None:
    body = json.dumps({**pod, **nodes, **names}, ensure_ascii=escaped).encode()
    assert outcome(body, KnownNames(KNOWN)) == outcome(body, None)


@pytest.mark.parametrize(
    "body",
    [
        b'{"Pod":{},"NodeNames":["node-1"',
        b'{"Pod":{},"NodeNames":["node-1"]} {}',
        b'{"Pod":{},"NodeNames":["node-1",]}',
        b'{"Pod":{},"NodeNames":["\xff"]}',
        b'{"Pod":{},"NodeNames":["\\ud800"]}',
        b'{"Pod":{},"NodeNames":' + b"[" * 2000 + b"}",
        b'{"Pod":' + b"[" * 100_000 + b',"NodeNames":["node-1"]}',
        b'{"Pod":{"metadata":[]},"NodeNames":["node-1"]}',
        b'{"Pod":null,"NodeNames":["node-1"]}',
        b'{"Pod":"\xff","NodeNames":["node-1"]}',
        b'["node-1"]',
        b"",
    ],
)
def test_malformed_requests_are_the_same_errors(body: bytes) -> None:
    with pytest.raises(ValueError) as usual:
        read_args(body)
    with pytest.raises(type(usual.value)) as found:
        read_args(body, KnownNames(KNOWN))
    assert str(found.value) == str(usual.value)


def test_names_that_are_known_are_not_made_again() -> None:
    names = read_args(json.dumps({"Pod": {}, "NodeNames": KNOWN}).encode(), KnownNames(KNOWN)).names
    assert all(one is other for one, other in zip(names, KNOWN, strict=True))
    assert read_args(b'{"Pod":{},"NodeNames":["node-9"]}', KnownNames(())).names == ["node-9"]
