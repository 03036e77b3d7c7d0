"""What a run decided: the waiting pods by cause, the gangs, its evictions, its placements, and its cycles over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.engine.core.jobs import Job, Status
from muster.model.natural_order import natural
from muster.sim.group_names import queue_of, shown_group
from muster.sim.replay.charts import Axis, Series, duration, line_chart
from muster.sim.report.elements import (
    Piece,
    attribute,
    bar,
    counted,
    empty,
    html_table,
    names,
    node_link,
    pod_link,
    shown,
    without_numbers,
)
from muster.sim.result import CycleRecord, Result

MAX_CAUSES = 100
MAX_REASON_CHARS = 1000
_GANG = re.compile(r"\s*\d+/\d+ tasks in gang unschedulable: .*", re.DOTALL)


@dataclass(slots=True)
class Cause:
    """A cause: reasons that differ only in numbers, and in the names of the pod and its group."""

    pods: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    queues: set[str] = field(default_factory=set)

    @property
    def example(self) -> str:
        """The reason of the most pods."""
        return min(self.reasons, key=lambda text: (-self.reasons[text], text))


def waiting(result: Result) -> str:
    """Returns a table with a row for each cause: how many pods, why, which."""
    found = causes(result)
    rows = []
    for cause in found[:MAX_CAUSES]:
        others = len(cause.reasons) - 1
        more = f' <span class="soft">({others:,} more like this, with other numbers)</span>' if others else ""
        queues = ", ".join(f"<span{attribute('queue', name)}>{shown(name)}</span>" for name in sorted(cause.queues)[:8])
        rows.append(
            f'<td class="n">{len(cause.pods):,}</td><td>{shown(cause.example, MAX_REASON_CHARS)}{more}</td>'
            f"<td>{queues}</td><td>{names(cause.pods)}</td>"
        )
    if not rows:
        return ""
    table = html_table(("pods", "why", "queue", "which"), rows, "Waiting pods by cause")
    left = len(found) - MAX_CAUSES
    return table + (empty(f"and {left:,} causes more; -o json has all") if left > 0 else "")


def causes(result: Result) -> list[Cause]:
    """Returns the causes, that of the most pods first."""
    found: dict[str, Cause] = {}
    known: dict[tuple[str, str], str] = {}
    for pod in sorted(result.pending, key=natural):
        reason = result.pending[pod]
        task = result.state.tasks.get(pod)
        group = task.job.shown if task is not None and task.job is not None else ""
        shape = known.get((reason, group))
        if shape is None or pod in reason:
            shape = known[reason, group] = _shape_of_cause(reason, pod, group)
        cause = found.setdefault(shape, Cause())
        cause.pods.append(pod)
        cause.reasons[reason] += 1
        if queue := queue_of(task):
            cause.queues.add(queue)
    return sorted(found.values(), key=lambda cause: (-len(cause.pods), natural(cause.pods[0])))


def _shape_of_cause(reason: str, pod: str, group: str) -> str:
    """Returns what equal causes have in common: the reason without the line about the gang, own names and numbers."""
    text = _GANG.sub("", reason) or reason
    for name in (pod, group):
        text = text.replace(name, "…") if name else text
    return without_numbers(text)


MAX_GANGS = 100
OPEN_GANGS = 20  # complete gangs that are shown without a click
GANG_COLUMNS = ("gang", "queue", "", "pods with a node", "minimum", "waiting", "nodes", "a waiting pod")


def gang_tables(result: Result) -> str:
    """Returns a table of the gangs, with the nodes of each, or a pod that waits."""
    found = gangs(result)
    if not found:
        return ""
    starving = [job for job in found if job.is_starving]
    complete = [job for job in found if not job.is_starving]
    table = _gang_table(result, complete, "Gangs that have their minimum")
    if len(complete) > OPEN_GANGS:
        table = f"<details><summary>{len(complete):,} complete gangs</summary>{table}</details>"
    head = f"<p>{len(complete):,} of {len(found):,} gangs have their minimum. In a bar: M minimum.</p>"
    return head + _gang_table(result, starving, "Gangs that lack pods") + table


def _gang_table(result: Result, jobs: Sequence[Job], caption: str) -> str:
    rows = [_gang_row(result, job) for job in jobs[:MAX_GANGS]]
    more = empty(f"and {len(jobs) - MAX_GANGS:,} more; -o json has all") if len(jobs) > MAX_GANGS else ""
    return html_table(GANG_COLUMNS, rows, caption) + more if rows else ""


def gangs(result: Result) -> list[Job]:
    """Returns the groups with a minimum above 1, incomplete ones first, then by name."""
    jobs = [job for job in result.state.jobs.values() if job.min_available > 1]
    return sorted(jobs, key=lambda job: (not job.is_starving, natural(job.key)))


def _gang_row(result: Result, job: Job) -> str:
    names = result.state.nodes.names
    nodes = Counter(names[task.node] for task in job.tasks.values() if task.node >= 0)
    first = min((task.key for task in job.tasks.values() if result.state.needs_node(task)), default="")
    waiting = job.count[Status.PENDING] + job.waiting
    whole = max(len(job.tasks), job.min_available, 1)
    drawn = bar([Piece(job.ready / whole, "q h0")], {"M": job.min_available / whole})
    return (
        f"<td{attribute('group', job.shown)}>{shown(job.shown)}</td>"
        f"<td{attribute('queue', job.queue_name)}>{shown(job.queue_name)}</td><td>{drawn}</td>"
        f'<td class="n">{job.ready:,} of {len(job.tasks):,}</td><td class="n">{job.min_available:,}</td>'
        f'<td class="n">{waiting:,}</td><td>{counted(nodes) or "–"}</td><td>{pod_link(first) if first else "–"}</td>'
    )


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
