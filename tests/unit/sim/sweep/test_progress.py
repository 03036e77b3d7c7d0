"""How far a sweep is."""

from __future__ import annotations

import io

from muster.sim.sweep.progress import Lines


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
