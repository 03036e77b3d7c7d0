"""The evictions of a run: which pod, from where, for whom and by which action or policy."""

from __future__ import annotations

from collections import Counter

from muster.sim.report.elements import empty, html_table, node_link, pod_link, shown
from muster.sim.result import Result

MAX_ROWS = 200


def render(result: Result) -> str:
    """Returns a table of the evictions in order, below their numbers by rule."""
    if not result.evictions:
        return ""
    rules = Counter(eviction.rule for eviction in result.evictions)
    cycles = {eviction.pod: record.number for record in result.history for eviction in record.evictions}
    rows = [
        f"<td>{pod_link(e.pod)}</td><td>{node_link(e.node)}</td><td>{shown(e.by)}</td><td>{shown(e.rule)}</td>"
        f"<td class=\"n\">{cycles.get(e.pod, '–')}</td>"
        for e in result.evictions[:MAX_ROWS]
    ]
    text = ", ".join(f"{n:,} by {shown(rule)}" for rule, n in sorted(rules.items()))
    more = len(result.evictions) - MAX_ROWS
    return (
        f"<p>{text}</p>"
        + html_table(("pod", "node", "for", "by", "cycle"), rows, "Evicted pods, in order")
        + (empty(f"and {more:,} more; -o json has all") if more > 0 else "")
    )
