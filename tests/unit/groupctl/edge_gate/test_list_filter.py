"""Lists, filtered as they come."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.groupctl.edge_gate.list_filter import ListFilter, TruncatedList
from muster.model.core import Pod

AWKWARD = '},{"metadata":{ "items":[ \\ ]}'


async def keep(pod: Pod, text: bytes | None) -> bool:
    return not pod.metadata.name.startswith("held")


def listed_pod(name: str, note: str = "") -> dict[str, Any]:
    meta = {"name": name, "namespace": "d", "labels": None, "annotations": {"note": note}}
    template = {"volumeClaimTemplate": {"metadata": {}, "spec": {}}}
    return {"metadata": meta, "spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [template, template]}}


def row(name: str, note: str = "") -> dict[str, Any]:
    return {"cells": [name, 1, note], "object": {"kind": "PartialObjectMetadata", "metadata": {"name": name}}}


def body(items: list[dict[str, Any]], field: str = "items", **more: Any) -> bytes:
    value = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "77"}, **more, field: items}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def filtered(text: bytes, cuts: list[int] | None = None, *, strip_objects: bool = False) -> tuple[bytes, list[str]]:
    versions: list[str] = []

    async def run() -> bytes:
        filter_ = ListFilter(keep, versions.append, strip_objects=strip_objects)
        out, at = b"", 0
        for cut in (*sorted(c % (len(text) + 1) for c in cuts or ()), len(text)):
            out += await filter_.feed(text[at:cut])
            at = cut
        return out + await filter_.finish()

    return asyncio.run(run()), versions


@given(
    st.lists(st.tuples(st.sampled_from(["held-1", "free-1", "free-2"]), st.sampled_from(["", AWKWARD])), max_size=6),
    st.lists(st.integers(0, 5000), max_size=12),
    st.booleans(),
)
def test_held_pods_are_left_out_wherever_the_text_is_cut(
    names: list[tuple[str, str]], cuts: list[int], table: bool
) -> None:
    make, field = (row, "rows") if table else (listed_pod, "items")
    more = {"columnDefinitions": [{"name": "Name", "description": "x"}]} if table else {}
    items = [make(*name) for name in names]
    text, versions = filtered(body(items, field, **more), cuts)
    assert json.loads(text)[field] == [make(*name) for name in names if name[0] != "held-1"]
    assert versions == ["77"]


def test_a_list_without_items_passes_as_it_is() -> None:
    for text in (body([]), b'{"kind":"PodList","metadata":{"resourceVersion":"77"},"items":null}\n'):
        assert filtered(text)[0] == text


def test_a_row_loses_its_object_where_none_was_asked_for() -> None:
    text, _ = filtered(body([row("free-1"), row("held-1")], "rows"), strip_objects=True)
    assert json.loads(text)["rows"] == [{"cells": ["free-1", 1, ""], "object": None}]


def test_what_is_no_list_passes_as_it_is() -> None:
    text = b'{"kind":"Status","code":500}'
    assert filtered(text) == (text, [])


@pytest.mark.parametrize("end", [-30, -3])
def test_a_list_that_ends_too_early_is_not_taken_for_whole(end: int) -> None:
    with pytest.raises(TruncatedList):
        filtered(body([listed_pod("free-1"), listed_pod("free-2")])[:end])


def test_a_long_list_is_never_kept_whole() -> None:
    text = body([listed_pod(f"free-{i}", "x" * 1000) for i in range(1000)])

    async def run() -> int:
        filter_ = ListFilter(keep, lambda version: None)
        most = 0
        for at in range(0, len(text), 65536):
            await filter_.feed(text[at : at + 65536])
            most = max(most, len(filter_._buffer))
        await filter_.finish()
        return most

    assert asyncio.run(run()) < 70_000
