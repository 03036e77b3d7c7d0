"""How far a sweep is."""

from __future__ import annotations

import io
import re

import pytest

from muster.sim.sweep.progress import Bar, Lines, progress_on


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


def test_a_terminal_gets_a_bar_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    bar = progress_on(stream)
    assert isinstance(bar, Bar) and isinstance(progress_on(io.StringIO()), Lines)
    with bar:
        bar.begin(3, 1)
        bar.finished(True)
        bar.finished(False)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "cells" in shown and "3/3" in shown and "1 failed" in shown
