"""The gangs: groups that start with a minimum number of pods, the incomplete ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from muster.engine.core.jobs import Job, Status
from muster.model.natural_order import natural
from muster.sim.report.elements import Piece, attribute, bar, counted, empty, html_table, pod_link, shown
from muster.sim.result import Result

MAX_ROWS = 100
OPEN_ROWS = 20  # complete gangs that are shown without a click
HEAD = ("gang", "queue", "", "pods with a node", "minimum", "waiting", "nodes", "a waiting pod")


def render(result: Result) -> str:
    """Returns a table of the gangs, with the nodes of each, or a pod that waits."""
    found = gangs(result)
    if not found:
        return ""
    starving = [job for job in found if job.is_starving]
    complete = [job for job in found if not job.is_starving]
    table = _table(result, complete, "Gangs that have their minimum")
    if len(complete) > OPEN_ROWS:
        table = f"<details><summary>{len(complete):,} complete gangs</summary>{table}</details>"
    head = f"<p>{len(complete):,} of {len(found):,} gangs have their minimum. In a bar: M minimum.</p>"
    return head + _table(result, starving, "Gangs that lack pods") + table


def _table(result: Result, jobs: Sequence[Job], caption: str) -> str:
    rows = [_row(result, job) for job in jobs[:MAX_ROWS]]
    more = empty(f"and {len(jobs) - MAX_ROWS:,} more; -o json has all") if len(jobs) > MAX_ROWS else ""
    return html_table(HEAD, rows, caption) + more if rows else ""


def gangs(result: Result) -> list[Job]:
    """Returns the groups with a minimum above 1, incomplete ones first, then by name."""
    jobs = [job for job in result.state.jobs.values() if job.min_available > 1]
    return sorted(jobs, key=lambda job: (not job.is_starving, natural(job.key)))


def _row(result: Result, job: Job) -> str:
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
