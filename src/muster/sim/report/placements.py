"""The placements of a run: pod by pod, above `MAX_ROWS` pods group by group."""

from __future__ import annotations

from collections import Counter

from muster.model.natural_order import natural
from muster.sim.group_names import shown_group
from muster.sim.report.elements import attribute, counted, empty, html_table, node_link, pod_link, shown
from muster.sim.report.task_names import queue_of
from muster.sim.result import Result

MAX_ROWS = 300
OPEN_ROWS = 30


def render(result: Result) -> str:
    """Returns a table of the placements behind a summary."""
    count = len(result.binds)
    if not count:
        return ""
    table = _by_pod(result) if count <= MAX_ROWS else _by_group(result)
    return f"<details{' open' * (count <= OPEN_ROWS)}><summary>{count:,} pods</summary>{table}</details>"


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
    more = empty(f"and {len(rows) - MAX_ROWS:,} groups more; -o json has all") if len(rows) > MAX_ROWS else ""
    head = ("queue", "group", "pods", "nodes")
    return html_table(head, rows[:MAX_ROWS], "Placements of this run by group") + more
