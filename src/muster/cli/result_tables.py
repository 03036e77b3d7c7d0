"""The tables of `muster simulate`: a result, and the difference between two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.cli.answer import counted, is_wide, plural, row, some, styled, table
from muster.model.natural_order import natural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from muster.sim.filters import Filter
    from muster.sim.result import Comparison, Result

MAX_ROWS = 60  # more placements than this are shown by group, unless everything is requested


def show_result(console: Console, result: Result, shown: Filter | None = None) -> None:
    """Prints the decisions, the queues and the figures; `shown` names what the result was restricted to."""
    if result.binds:
        _placements(console, result)
    if result.evictions:
        gone = table("Evicted", "pod", "node", "for", "by")
        for eviction in result.evictions:
            row(gone, eviction.pod, eviction.node, eviction.by, eviction.rule)
        console.print(gone)
    if result.pending:
        console.print(_pending(result))
    _queues(console, result, shown)
    if used := utilisation(result):
        console.print(used)
    if shown:
        counts = f"{len(result.binds):,} bound, {len(result.pending):,} pending, {len(result.evictions):,} evicted"
        console.print(f"shown ({shown}): {counts}")
    console.print(headline(result))


def headline(result: Result) -> Text:
    """Returns the line with the counts of the whole cluster."""
    s = result.summary
    text = (
        f"{plural(s.bound, 'pod')} bound, {s.pending:,} pending, {s.evicted:,} evicted "
        f"on {plural(s.nodes, 'node')} in {plural(result.cycles, 'cycle')}"
    )
    if s.fragmentation:
        text += "; fragmentation " + ", ".join(f"{name} {f:.1%}" for name, f in s.fragmentation.items())
    if s.gpu_fragmentation is not None:
        text += f"; {s.gpu_fragmentation}"
    return styled(text, "bold")


def utilisation(result: Result) -> str:
    """Returns `in use: 88 of 96 nvidia.com/gpu, …`; "" if no pod requests anything."""
    parts = [str(one) for one in result.summary.utilisation.values()]
    return f"in use: {', '.join(parts)}" if parts else ""


def _placements(console: Console, result: Result) -> None:
    from muster.sim.group_names import group_of, queue_of

    tasks = result.state.tasks
    placed_pods = sorted(result.binds.items(), key=lambda item: natural(item[0]))
    if is_wide():
        _all_placements(console, result, placed_pods)
        return
    if len(placed_pods) <= MAX_ROWS:
        placed = table("Bound", "pod", "node", "queue", *(["devices"] if result.devices else []))
        for pod, node in placed_pods:
            ids = [result.devices_of(pod)] if result.devices else []
            row(placed, pod, node, queue_of(tasks.get(pod)), *ids)
        console.print(placed)
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for pod, node in placed_pods:
        task = tasks.get(pod)
        name = group_of(task)
        where = f"{task.namespace}/{name}" if task is not None and name else "(single pods)"
        groups.setdefault((queue_of(task), where), []).append(node)
    placed = table("Bound", "queue", "group", "pods", "nodes")
    for (queue, group), nodes in groups.items():
        row(placed, queue, group, len(nodes), counted(nodes))
    console.print(placed)


def _all_placements(console: Console, result: Result, pods: list[tuple[str, str]]) -> None:
    """Prints a row for each pod with all that is known about it."""
    from muster.model.quantity import display
    from muster.sim.group_names import queue_of, shown_group

    placed = table("Bound", "pod", "node", "queue", "group", "priority", "requests", "devices")
    for pod, node in pods:
        task = result.state.tasks.get(pod)
        if task is None:
            row(placed, pod, node, "", "", "", "", result.devices_of(pod) or "–")
            continue
        amounts = sorted(task.shape.amounts.items())
        asked = ", ".join(f"{name} {display(name, amount)}" for name, amount in amounts if name != "pods" and amount)
        row(placed, pod, node, queue_of(task), shown_group(task), task.priority, asked or "–",
            result.devices_of(pod) or "–")  # fmt: skip
    console.print(placed)


def _pending(result: Result) -> object:
    pods = sorted(result.pending, key=natural)
    if is_wide():
        each = table("Pending", "pod", "queue", "waits for", "why")
        from muster.sim.group_names import queue_of

        for pod in pods:
            queue = queue_of(result.state.tasks.get(pod))
            row(each, pod, queue, result.pipelined.get(pod, "–"), result.pending[pod])
        return each
    by_reason: dict[str, list[str]] = {}
    for pod in pods:
        by_reason.setdefault(result.pending[pod], []).append(pod)
    waiting = table("Pending", "pods", "which", "why")
    for reason, same in by_reason.items():
        row(waiting, len(same), some(same), reason)
    return waiting


def _queues(console: Console, result: Result, shown: Filter | None) -> None:
    from muster.model.quantity import display

    shares = result.summary.queues
    if len(shares) < 2 and not is_wide() and not any(share.deserved or share.capability for share in shares.values()):
        return
    queues = table("Queues", "queue", "resource", "allocated", "deserved", "capability")
    for name in sorted(shares, key=natural):
        if shown and shown.queues and name not in shown.queues:
            continue
        share = shares[name]
        hidden = set() if is_wide() else {"pods"}
        resources = sorted({*share.allocated, *share.deserved, *share.capability} - hidden)
        for i, resource in enumerate(resources):
            cells = [
                display(resource, part[resource]) if resource in part else "–"
                for part in (share.allocated, share.deserved, share.capability)
            ]
            row(queues, name if i == 0 else "", resource, *cells)
        if not resources:
            row(queues, name, "–", "–", "–", "–")
    console.print(queues)


def show_comparison(console: Console, comparison: Comparison, shown: Filter) -> None:
    """Prints what differs by group, with `-o wide` also by pod, and the figures of both."""
    from muster.cli.plan import differences
    from muster.sim.difference import Difference

    groups = shown.groups(Difference(comparison.first, comparison.second).groups)
    if groups:
        console.print(differences(groups))
    if is_wide():
        _by_pod(console, comparison)
    console.print(_figures(comparison))
    same = len(comparison.first.binds) - sum(1 for a, _ in comparison.placements.values() if a is not None)
    text = f"{plural(same, 'placement')} equal, {len(comparison.placements):,} different"
    console.print(styled(text, "bold"))


def _by_pod(console: Console, comparison: Comparison) -> None:
    for title, pairs in (("Placements that differ", comparison.placements), ("Pending", comparison.pending)):
        if pairs:
            pods = table(title, "pod", *comparison.names)
            for pod in sorted(pairs, key=natural):
                row(pods, pod, *(cell or "–" for cell in pairs[pod]))
            console.print(pods)


def _figures(comparison: Comparison) -> object:
    from muster.model.quantity import display

    figures = table("Figures", "", *comparison.names)
    summaries = comparison.first.summary, comparison.second.summary
    for figure in ("bound", "pending", "evicted"):
        row(figures, figure, *(f"{getattr(s, figure):,}" for s in summaries))
    for resource in sorted({*summaries[0].utilisation, *summaries[1].utilisation}):
        used = (s.utilisation.get(resource) for s in summaries)
        row(figures, f"{resource} in use", *("–" if u is None else str(u).removesuffix(f" {resource}") for u in used))
    for name, pair in comparison.fragmentation.items():
        row(figures, f"fragmentation of {name}", *("–" if x is None else f"{x:.1%}" for x in pair))
    gpus = [s.gpu_fragmentation for s in summaries]
    if any(gpus):
        cells = ("–" if x is None else f"{x.amount:.2f} GPUs, {x.ratio:.1%} of the idle" for x in gpus)
        row(figures, "GPU fragmentation", *cells)
    for queue, shares in comparison.allocated.items():
        for resource in sorted({*shares[0], *shares[1]} - {"pods"}):
            row(figures, f"queue {queue}, {resource}", *(display(resource, held.get(resource, 0)) for held in shares))
    return figures
