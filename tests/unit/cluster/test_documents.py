"""Snapshots as bytes: what is too large to be one is refused before it is all in memory."""

from __future__ import annotations

import gzip
import json

import pytest

from muster.cluster import documents
from muster.model.finding import Finding


def packed(lines: int, text: str = "a") -> bytes:
    return gzip.compress("\n".join(json.dumps({"name": f"{text}-{i}"}) for i in range(lines)).encode(), mtime=0)


def test_every_line_of_a_snapshot_is_a_value() -> None:
    found = list(documents.values("s.ndjson.gz", packed(3)))
    assert [value["name"] for value, _ in found]  # type: ignore[misc] == ["a-0", "a-1", "a-2"]


def test_what_unpacks_to_many_times_its_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "UNCHECKED_UNPACKED_BYTES", 1 << 20)
    bomb = gzip.compress(b" " * (4 << 20), mtime=0)
    (found,) = documents.values("s.ndjson.gz", bomb)
    assert isinstance(found, Finding)
    assert found.message.startswith("the snapshot is larger than 1 MiB unpacked, more than 200 times its own size")


def test_a_small_one_may_be_as_dense_as_it_likes() -> None:
    assert len(list(documents.values("s.ndjson.gz", packed(2000, "a" * 2000)))) == 2000


def test_a_snapshot_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_SNAPSHOT_BYTES", 1 << 10)
    (found,) = documents.values("s.ndjson.gz", packed(200))
    assert isinstance(found, Finding)
    assert (found.message, found.fix) == (
        "the snapshot is larger than 0 MiB unpacked", "take fewer namespaces into it"
    )  # fmt: skip
