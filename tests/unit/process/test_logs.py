"""Logs are JSON: one line an entry, up to the configured level."""

from __future__ import annotations

import asyncio
import json

import pytest

from builders.manifests import node, queue
from builders.scheduler_objects import cluster_of, waiting
from fakes.stepped_scheduler import Faults, Leader
from muster.process.logs import Log
from muster.store import errors


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


def test_a_cycle_counts_decisions_and_the_bindings_that_were_accepted_since_the_last_one() -> None:
    class OneIsRefused(Faults):
        def before(self, number: int, verb: str, key: str) -> Exception | None:
            return errors.Forbidden("POST", "no", code=403) if (verb, key) == ("bind", "d/b") else None

    async def run() -> None:
        leader = Leader(cluster_of(queue("default"), node("n1"), waiting("a"), waiting("b")), faults=OneIsRefused())
        output: list[dict[str, object]] = []

        def log(level: int, message: object, **fields: object) -> None:
            if message == "cycle":
                output.append(fields)

        leader.decider._log = log  # type: ignore[assignment]
        await leader.turn()
        await leader.turn()
        await leader.turn()
        assert [(entry["decided"], entry["bound"]) for entry in output] == [(2, 0), (0, 1), (0, 0)]

    asyncio.run(run())
