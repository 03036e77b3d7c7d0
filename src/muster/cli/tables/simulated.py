"""The tables of `muster simulate`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from muster.cli.tables.parts import counted, plural, row, some, table
from muster.model.quantity import display
from muster.sim.compare import Comparison
from muster.sim.picture import group_of, queue_of
from muster.sim.result import Result

MOST_ROWS = 60  # more placements than this are shown by group


def show_result(console: Console, result: Result) -> None:
    if result.binds:
        _placements(console, result)
    if result.evictions:
        gone = table("Evicted", "pod", "node", "for", "by")
        for eviction in result.evictions:
            row(gone, eviction.pod, eviction.node, eviction.by, eviction.rule)
        console.print(gone)
    if result.pending:
        console.print(_pending(result))
    _queues(console, result)
    console.print(headline(result))


def headline(result: Result) -> Text:
    s = result.summary
    said = (
        f"{plural(s.bound, 'pod')} bound, {s.pending:,} pending, {s.evicted:,} evicted "
        f"on {plural(s.nodes, 'node')} in {plural(result.cycles, 'cycle')}"
    )
    if s.fragmentation:
        said += "; fragmentation " + ", ".join(f"{name} {f:.1%}" for name, f in s.fragmentation.items())
    return Text(said, "bold")


def _placements(console: Console, result: Result) -> None:
    tasks = result.state.tasks
    if len(result.binds) <= MOST_ROWS:
        placed = table("Bound", "pod", "node", "queue", *(["devices"] if result.devices else []))
        for pod, node in sorted(result.binds.items()):
            ids = [", ".join(map(str, result.devices.get(pod, [])))] if result.devices else []
            row(placed, pod, node, queue_of(tasks.get(pod)), *ids)
        console.print(placed)
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for pod, node in sorted(result.binds.items()):
        task = tasks.get(pod)
        name = group_of(task)
        where = f"{task.namespace}/{name}" if task is not None and name else "(single pods)"
        groups.setdefault((queue_of(task), where), []).append(node)
    placed = table("Bound", "queue", "group", "pods", "nodes")
    for (queue, group), nodes in groups.items():
        row(placed, queue, group, len(nodes), counted(nodes))
    console.print(placed)


def _pending(result: Result) -> object:
    by_reason: dict[str, list[str]] = {}
    for pod, reason in sorted(result.pending.items()):
        by_reason.setdefault(reason, []).append(pod)
    waiting = table("Pending", "pods", "which", "why")
    for reason, pods in by_reason.items():
        row(waiting, len(pods), some(pods), reason)
    return waiting


def _queues(console: Console, result: Result) -> None:
    shares = result.summary.queues
    if len(shares) < 2 and not any(share.deserved or share.capability for share in shares.values()):
        return
    queues = table("Queues", "queue", "resource", "allocated", "deserved", "capability")
    for name, share in shares.items():
        resources = sorted({*share.allocated, *share.deserved, *share.capability} - {"pods"})
        for i, resource in enumerate(resources):
            cells = [
                display(resource, part[resource]) if resource in part else "–"
                for part in (share.allocated, share.deserved, share.capability)
            ]
            row(queues, name if i == 0 else "", resource, *cells)
        if not resources:
            row(queues, name, "–", "–", "–", "–")
    console.print(queues)


def show_comparison(console: Console, comparison: Comparison) -> None:
    one, two = comparison.names
    if comparison.placements:
        moved = table("Placements that differ", "pod", one, two)
        for pod, (a, b) in list(comparison.placements.items())[:MOST_ROWS]:
            row(moved, pod, a or "–", b or "–")
        console.print(moved)
        if len(comparison.placements) > MOST_ROWS:
            console.print(f"… and {len(comparison.placements) - MOST_ROWS:,} more; -o json has all")
    waiting = {pod: pair for pod, pair in comparison.pending.items() if None in pair}
    if waiting:
        pending = table("Pending in one of them", "pod", one, two)
        for pod, (a, b) in list(waiting.items())[:MOST_ROWS]:
            row(pending, pod, a or "–", b or "–")
        console.print(pending)
    figures = table("Figures", "", one, two)
    summaries = comparison.first.summary, comparison.second.summary
    for figure in ("bound", "pending", "evicted"):
        row(figures, figure, *(f"{getattr(s, figure):,}" for s in summaries))
    for name, pair in comparison.fragmentation.items():
        row(figures, f"fragmentation of {name}", *("–" if x is None else f"{x:.1%}" for x in pair))
    for queue, shares in comparison.allocated.items():
        for resource in sorted({*shares[0], *shares[1]} - {"pods"}):
            row(figures, f"queue {queue}, {resource}", *(display(resource, held.get(resource, 0)) for held in shares))
    console.print(figures)
    same = len(comparison.first.binds) - sum(1 for a, _ in comparison.placements.values() if a is not None)
    console.print(Text(f"{plural(same, 'placement')} alike, {len(comparison.placements):,} differ", "bold"))
