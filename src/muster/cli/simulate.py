"""`muster simulate`: what the scheduler would do with these manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import counted, plural, row, some, styled, table
from muster.cli.help import Command

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from muster.sim.inputs import LoadedConfig
    from muster.sim.result import Comparison, Result


@click.command(cls=Command, example="muster simulate -c scheduler.yaml -f cluster.yaml job.yaml")
@options.config
@options.files(required=True)
@options.output("table", "json", "html")
@click.option(
    "--cycles", type=click.IntRange(min=1), metavar="N", help="Run at most N cycles. Default: until nothing changes."
)
@click.option("--compare", type=click.Path(), metavar="FILE_OR_MAP",
              help="A second configuration to run on the same input.")  # fmt: skip
@options.kubeconfig
@options.now
@click.option("--fail-on-pending", is_flag=True, help="Exit 1 if a pod stays without a node.")
@options.workload_kinds
@options.scheduler_names
@options.keep_going
@options.feature_gates
@options.verbosity
def simulate(
    config: str | None,
    files: tuple[str, ...],
    form: str,
    cycles: int | None,
    compare: str | None,
    kubeconfig: str | None,
    context: str | None,
    now: float | None,
    fail_on_pending: bool,
    workload_kinds: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    feature_gates: dict[str, bool] | None,
    verbosity: int,
) -> None:
    """Show what the scheduler does with manifests or a snapshot.

    The pods are scheduled on an embedded cluster. The manifests are its initial state; Deployments and other workloads
    create their pods. Cycles run until nothing changes: evicted pods end, and the pods that waited for their capacity
    are bound.
    """
    from muster.cli.answer import waiting
    from muster.cli.configuration import config_from_flag, config_from_objects, load_and_report
    from muster.cli.reading import log, read_manifests
    from muster.process.memory import keep_freed_memory
    from muster.sim.api import simulate as run
    from muster.sim.result import Comparison

    keep_freed_memory()

    first, second = (
        None if one is None else load_and_report(one) for one in (config_from_flag(config), config_from_flag(compare))
    )
    manifests = read_manifests(files, keep_going=keep_going, workload_kinds=workload_kinds)
    first = first or load_and_report(config_from_objects(manifests.objects, scheduler_names))
    with waiting("simulating"):
        results = [
            run(
                manifests, config=one, cycles=cycles, now=now, scheduler_names=scheduler_names,
                keep_going=True, feature_gates=feature_gates, log=log,
            )
            for one in (first, second) if one is not None
        ]  # fmt: skip
    for result in results:
        for warning in result.summary.warnings:
            click.echo(f"warning: {warning}", err=True)
    if second is not None:
        comparison = Comparison((_short(first), _short(second)), results[0], results[1])
        _show_comparison(comparison, (first, second), files, form)
    else:
        _show(results[0], first, files, form)
    if fail_on_pending and any(result.pending for result in results):
        raise click.exceptions.Exit(1)


def _short(one: LoadedConfig) -> str:
    return "default" if one.text.is_default else one.text.source


def _show(result: Result, one: LoadedConfig, files: tuple[str, ...], form: str) -> None:
    from muster.cli.answer import console, print_json, print_page

    if form == "json":
        print_json(result.to_dict())
    elif form == "html":
        from muster.cli.origin import origin_rows
        from muster.sim.report.pages import page

        print_page(page(result, f"{', '.join(files)}, configuration {one}", origin_rows(files, [one])))
    else:
        click.echo(f"configuration: {one}")
        show_result(console(), result)


def _show_comparison(
    comparison: Comparison, pair: tuple[LoadedConfig, LoadedConfig], files: tuple[str, ...], form: str
) -> None:
    from muster.cli.answer import console, print_json, print_page

    if form == "json":
        print_json(comparison.to_dict())
    elif form == "html":
        from muster.cli.origin import origin_rows
        from muster.sim.report.pages import comparison_page

        print_page(comparison_page(comparison, origin_rows(files, pair)))
    else:
        click.echo(f"configurations: {pair[0]}; {pair[1]}")
        show_comparison(console(), comparison)


MAX_ROWS = 60  # more placements than this are shown by group


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
    text = (
        f"{plural(s.bound, 'pod')} bound, {s.pending:,} pending, {s.evicted:,} evicted "
        f"on {plural(s.nodes, 'node')} in {plural(result.cycles, 'cycle')}"
    )
    if s.fragmentation:
        text += "; fragmentation " + ", ".join(f"{name} {f:.1%}" for name, f in s.fragmentation.items())
    if s.gpu_fragmentation is not None:
        text += f"; {s.gpu_fragmentation}"
    return styled(text, "bold")


def _placements(console: Console, result: Result) -> None:
    from muster.sim.report.task_names import group_of, queue_of

    tasks = result.state.tasks
    if len(result.binds) <= MAX_ROWS:
        placed = table("Bound", "pod", "node", "queue", *(["devices"] if result.devices else []))
        for pod, node in sorted(result.binds.items()):
            ids = [result.devices_of(pod)] if result.devices else []
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
    from muster.model.quantity import display

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
    from muster.model.quantity import display

    one, two = comparison.names
    if comparison.placements:
        moved = table("Placements that differ", "pod", one, two)
        for pod, (a, b) in list(comparison.placements.items())[:MAX_ROWS]:
            row(moved, pod, a or "–", b or "–")
        console.print(moved)
        if len(comparison.placements) > MAX_ROWS:
            console.print(f"… and {len(comparison.placements) - MAX_ROWS:,} more; -o json has all")
    waiting = {pod: pair for pod, pair in comparison.pending.items() if None in pair}
    if waiting:
        pending = table("Pending in one of them", "pod", one, two)
        for pod, (a, b) in list(waiting.items())[:MAX_ROWS]:
            row(pending, pod, a or "–", b or "–")
        console.print(pending)
    figures = table("Figures", "", one, two)
    summaries = comparison.first.summary, comparison.second.summary
    for figure in ("bound", "pending", "evicted"):
        row(figures, figure, *(f"{getattr(s, figure):,}" for s in summaries))
    for name, pair in comparison.fragmentation.items():
        row(figures, f"fragmentation of {name}", *("–" if x is None else f"{x:.1%}" for x in pair))
    gpus = [s.gpu_fragmentation for s in summaries]
    if any(gpus):
        cells = ("–" if x is None else f"{x.amount:.2f} GPUs, {x.ratio:.1%} of the idle" for x in gpus)
        row(figures, "GPU fragmentation", *cells)
    for queue, shares in comparison.allocated.items():
        for resource in sorted({*shares[0], *shares[1]} - {"pods"}):
            row(figures, f"queue {queue}, {resource}", *(display(resource, held.get(resource, 0)) for held in shares))
    console.print(figures)
    same = len(comparison.first.binds) - sum(1 for a, _ in comparison.placements.values() if a is not None)
    console.print(styled(f"{plural(same, 'placement')} equal, {len(comparison.placements):,} different", "bold"))
