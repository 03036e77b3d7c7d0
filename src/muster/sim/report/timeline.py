"""The cycles of a run over time: pods bound, evicted and waiting after each."""

from __future__ import annotations

from collections.abc import Sequence

from muster.sim.replay.charts import Axis, Series, duration, line_chart
from muster.sim.report.elements import attribute, empty, html_table, pod_link
from muster.sim.result import CycleRecord, Result

MAX_ROWS = 200
SIZE = (760.0, 220.0)


def render(result: Result) -> str:
    """Returns a chart of the cycles and a table that names the first pods of each."""
    history = result.history
    if not history:
        return ""
    idle = [record for record in history if not record.binds and not record.evictions]
    acted = [record for record in history if record.binds or record.evictions]
    rows = [_row(record, history[0].time) for record in acted[:MAX_ROWS]]
    notes = []
    if idle:
        notes.append(f"{len(idle):,} of {len(history):,} cycles bound and evicted nothing.")
    if len(acted) > MAX_ROWS:
        notes.append(f"The table has the first {MAX_ROWS:,} of the other cycles.")
    chart = _chart(history) if len(history) > 2 else ""
    head = ("cycle", "after", "bound", "evicted", "waiting", "pods")
    table = html_table(head, rows, "Cycles that bound or evicted pods") if rows else ""
    return chart + table + (empty(" ".join(notes)) if notes else "")


def _chart(history: Sequence[CycleRecord]) -> str:
    numbers = [float(record.number) for record in history]
    series = [
        Series("bound", numbers, [float(len(record.binds)) for record in history]),
        Series("evicted", numbers, [float(len(record.evictions)) for record in history]),
        Series("waiting", numbers, [float(record.pending) for record in history]),
    ]
    svg = line_chart("Pods by cycle", series, Axis("cycle", low=1.0), Axis("pods"), size=SIZE)
    return f'<figure class="chart"><figcaption>Pods by cycle</figcaption>{svg}</figure>'


def _row(record: CycleRecord, began: float) -> str:
    pods = [*(eviction.pod for eviction in record.evictions), *sorted(record.binds)]
    named = ", ".join(pod_link(pod) for pod in pods[:3]) + (f" and {len(pods) - 3:,} more" if len(pods) > 3 else "")
    return (
        f'<th scope="row"{attribute("cycle", str(record.number))}>{record.number:,}</th>'
        f'<td class="n">{duration(record.time - began)}</td><td class="n">{len(record.binds):,}</td>'
        f'<td class="n">{len(record.evictions):,}</td><td class="n">{record.pending:,}</td><td>{named}</td>'
    )
