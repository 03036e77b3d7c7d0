"""Logs are JSON: one line an entry, up to the level that was asked for."""

from __future__ import annotations

import json

import pytest

from muster.live.logs import Log


def entries(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_entry_is_one_line_whatever_stands_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    Log(0, part="scheduler")(0, "two\nlines", why=ValueError("ü"), nodes=("n1", "n2"))
    (entry,) = entries(capsys)
    assert str(entry.pop("time")).endswith("Z")
    assert entry == {"v": 0, "msg": "two\nlines", "part": "scheduler", "why": "ü", "nodes": ["n1", "n2"]}


@pytest.mark.parametrize("verbosity", [0, 3, 9])
def test_what_lies_above_the_level_is_neither_written_nor_worded(
    verbosity: int, capsys: pytest.CaptureFixture[str]
) -> None:
    log, worded = Log(verbosity), []

    def words(level: int) -> str:
        worded.append(level)
        return f"level {level}"

    for level in range(10):
        log(level, lambda level=level: words(level))
    assert [entry["v"] for entry in entries(capsys)] == worded == list(range(verbosity + 1))
