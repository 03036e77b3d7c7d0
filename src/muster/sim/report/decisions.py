"""What a run decided: its evictions, its placements, and its cycles over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from muster.model.natural_order import natural
from muster.sim.group_names import queue_of, shown_group
from muster.sim.replay.charts import Axis, Series, duration, line_chart
from muster.sim.report.elements import attribute, counted, empty, html_table, node_link, pod_link, shown
from muster.sim.result import CycleRecord, Result

MAX_PLACEMENTS = 300
OPEN_PLACEMENTS = 30


def placements(result: Result) -> str:
    """Returns the placements behind a summary, pod by pod; many of them group by group."""
    count = len(result.binds)
    if not count:
        return ""
    table = _by_pod(result) if count <= MAX_PLACEMENTS else _by_group(result)
    return f"<details{' open' * (count <= OPEN_PLACEMENTS)}><summary>{count:,} pods</summary>{table}</details>"


def _by_pod(result: Result) -> str:
    tasks = result.state.tasks
    rows = []
    for pod in sorted(result.binds, key=natural):
        node = result.binds[pod]
        queue = queue_of(tasks.get(pod))
        cells = f"<td>{pod_link(pod)}</td><td>{node_link(node)}</td><td{attribute('queue', queue)}>{shown(queue)}</td>"
        rows.append(cells + (f"<td>{shown(result.devices_of(pod))}</td>" if result.devices else ""))
    head = ("pod", "node", "queue", *(["devices"] if result.devices else []))
    return html_table(head, rows, "Placements of this run")


def _by_group(result: Result) -> str:
    tasks = result.state.tasks
    groups: dict[tuple[str, str], Counter[str]] = {}
    for pod, node in result.binds.items():
        task = tasks.get(pod)
        where = shown_group(task) if task is not None else pod
        groups.setdefault((queue_of(task), where), Counter())[node] += 1
    rows = [
        f"<td>{shown(queue)}</td><td>{shown(group)}</td><td class=\"n\">{nodes.total():,}</td><td>{counted(nodes)}</td>"
        for (queue, group), nodes in sorted(groups.items(), key=lambda item: (natural(item[0][0]), natural(item[0][1])))
    ]
    left = len(rows) - MAX_PLACEMENTS
    more = empty(f"and {left:,} groups more; -o json has all") if left > 0 else ""
    head = ("queue", "group", "pods", "nodes")
    return html_table(head, rows[:MAX_PLACEMENTS], "Placements of this run by group") + more


MAX_EVICTIONS = 200


def evictions(result: Result) -> str:
    """Returns a table of the evictions in order, below their numbers by rule."""
    if not result.evictions:
        return ""
    rules = Counter(eviction.rule for eviction in result.evictions)
    cycles = {eviction.pod: record.number for record in result.history for eviction in record.evictions}
    rows = [
        f"<td>{pod_link(e.pod)}</td><td>{node_link(e.node)}</td><td>{shown(e.by)}</td><td>{shown(e.rule)}</td>"
        f"<td class=\"n\">{cycles.get(e.pod, '–')}</td>"
        for e in result.evictions[:MAX_EVICTIONS]
    ]
    text = ", ".join(f"{n:,} by {shown(rule)}" for rule, n in sorted(rules.items()))
    more = len(result.evictions) - MAX_EVICTIONS
    return (
        f"<p>{text}</p>"
        + html_table(("pod", "node", "for", "by", "cycle"), rows, "Evicted pods, in order")
        + (empty(f"and {more:,} more; -o json has all") if more > 0 else "")
    )


MAX_CYCLES = 200
CHART_SIZE = (760.0, 220.0)


def timeline(result: Result) -> str:
    """Returns a chart of the cycles and a table that names the first pods of each."""
    history = result.history
    if not history:
        return ""
    idle = [record for record in history if not record.binds and not record.evictions]
    acted = [record for record in history if record.binds or record.evictions]
    rows = [_cycle_row(record, history[0].time) for record in acted[:MAX_CYCLES]]
    notes = []
    if idle:
        notes.append(f"{len(idle):,} of {len(history):,} cycles bound and evicted nothing.")
    if len(acted) > MAX_CYCLES:
        notes.append(f"The table has the first {MAX_CYCLES:,} of the other cycles.")
    chart = _cycle_chart(history) if len(history) > 2 else ""
    head = ("cycle", "after", "bound", "evicted", "waiting", "pods")
    table = html_table(head, rows, "Cycles that bound or evicted pods") if rows else ""
    return chart + table + (empty(" ".join(notes)) if notes else "")


def _cycle_chart(history: Sequence[CycleRecord]) -> str:
    numbers = [float(record.number) for record in history]
    series = [
        Series("bound", numbers, [float(len(record.binds)) for record in history]),
        Series("evicted", numbers, [float(len(record.evictions)) for record in history]),
        Series("waiting", numbers, [float(record.pending) for record in history]),
    ]
    svg = line_chart("Pods by cycle", series, Axis("cycle", low=1.0), Axis("pods"), size=CHART_SIZE)
    return f'<figure class="chart"><figcaption>Pods by cycle</figcaption>{svg}</figure>'


def _cycle_row(record: CycleRecord, began: float) -> str:
    pods = [*(eviction.pod for eviction in record.evictions), *sorted(record.binds)]
    named = ", ".join(pod_link(pod) for pod in pods[:3]) + (f" and {len(pods) - 3:,} more" if len(pods) > 3 else "")
    return (
        f'<th scope="row"{attribute("cycle", str(record.number))}>{record.number:,}</th>'
        f'<td class="n">{duration(record.time - began)}</td><td class="n">{len(record.binds):,}</td>'
        f'<td class="n">{len(record.evictions):,}</td><td class="n">{record.pending:,}</td><td>{named}</td>'
    )
