"""The progress of long work: counts and the remaining time, on a terminal only, without escape codes."""

from __future__ import annotations

import gzip
import io
import json
import time
from pathlib import Path

from builders.files import text
from builders.manifests import node, pod
from muster.cli.progress import Lines, Progress, duration, pods_placed, progress
from muster.cli.sweep import CellsDone
from muster.engine.core.state import State
from muster.sim.api import simulate
from muster.sim.inputs import read_cluster


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_has_counts_and_the_remaining_time() -> None:
    now = [0.0]
    shown = Progress("replaying", "jobs", clock=lambda: now[0])
    assert shown.line() == "replaying: 0 s"
    shown.update(0, 5_000)
    now[0] = 10.0
    shown.update(1_000, 5_000)
    assert shown.line() == "replaying: 1,000 of 5,000 jobs, about 40 s left"
    shown.update(1_000)
    assert shown.line() == "replaying: 1,000 jobs, 10 s"


def test_what_was_done_before_does_not_count_for_the_speed() -> None:
    now = [0.0]
    shown = Progress("sweeping", "cells", clock=lambda: now[0])
    shown.update(90, 100)
    now[0] = 60.0
    shown.update(95, 100, "1 failed")
    assert shown.line() == "sweeping: 95 of 100 cells (1 failed), about 60 s left"


def test_it_is_shown_after_a_while_on_a_terminal_and_removed_at_the_end() -> None:
    out = Terminal()
    with progress("reading", "lines", stream=out, first=0.01) as shown:
        shown.sample = lambda: (1, 2)
        limit = time.monotonic() + 5
        while not out.getvalue() and time.monotonic() < limit:
            time.sleep(0.01)
    text = out.getvalue()
    assert text.startswith("\rreading: 1 of 2 lines")
    assert text.endswith("\r") and not text.rstrip("\r").split("\r")[-1].strip()
    assert "\x1b" not in text


def test_a_pipe_and_quick_work_show_nothing() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    with progress("reading", stream=pipe, first=0.0), progress("reading", stream=terminal):
        pass
    assert pipe.getvalue() == terminal.getvalue() == ""


def test_durations_are_readable() -> None:
    assert [duration(s) for s in (0, 59, 90, 3_599, 7_500)] == ["0 s", "59 s", "2 min", "1 h 0 min", "2 h 5 min"]


def test_a_sweep_counts_its_cells_and_those_that_failed() -> None:
    with CellsDone(Terminal()) as shown:
        shown.begin(3, 1)
        shown.finished(True)
        shown.finished(False)
        assert shown._shown.line().startswith("sweeping: 3 of 3 cells (1 failed)")


def test_reading_counts_the_documents_of_texts_and_snapshots(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text(node("n1"), node("n2")))
    lines = "".join(json.dumps(node(f"n{i}")) + "\n" for i in range(3, 6))
    (tmp_path / "b.ndjson.gz").write_bytes(gzip.compress(lines.encode()))
    calls: list[tuple[int, int]] = []
    read_cluster([tmp_path / "a.yaml", tmp_path / "b.ndjson.gz"], progress=lambda *counts: calls.append(counts))
    assert calls == [(1, 2), (2, 2), (3, 5), (4, 5), (5, 5)]


def test_a_simulation_counts_the_pods_that_have_a_node() -> None:
    with pods_placed("simulating") as started:
        states: list[State] = []
        simulate([node("n1"), pod("a"), pod("b")], started=lambda state: (states.append(state), started(state))[0])
        assert len(states) == 1 and len(states[0].tasks) == 2


def test_a_pipe_gets_a_line_every_half_minute() -> None:
    stream, now = io.StringIO(), [0.0]
    with Lines(stream, lambda: now[0]) as lines:
        lines.begin(100, 90)
        for failed in (False, True, False, False):
            now[0] += 20
            lines.finished(failed)
    assert stream.getvalue().splitlines() == [
        "92 of 100 cells, 1 failed, about 3 min left", "94 of 100 cells, 1 failed, about 2 min left",
    ]  # fmt: skip
