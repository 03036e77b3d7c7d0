"""`muster replay`: what a trace of jobs would experience with one or more configurations."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.help import Command
from muster.cli.options import DURATION, read_traces, trace_options

if TYPE_CHECKING:
    from muster.cluster.manifests import Manifests
    from muster.sim.inputs import LoadedConfig
    from muster.sim.replay.records import Replay


@click.command(cls=Command, example="muster replay trace.csv --nodes nodes.yaml -c scheduler.yaml")
@click.argument("trace", nargs=-1, required=True, type=click.Path())
@click.option("-c", "--config", "configs", multiple=True, type=click.Path(), metavar="FILE_OR_MAP",
              help="A scheduler configuration. May be given several times: each one replays the trace.")  # fmt: skip
@click.option("--nodes", multiple=True, type=click.Path(), metavar="FILE",
              help="The nodes: a list that is published with a trace (CSV), or manifests.")  # fmt: skip
@click.option("--cluster", multiple=True, type=click.Path(), metavar="FILE_OR_DIR",
              help="The cluster at the start, with nodes, queues and pods: manifests or a snapshot.")  # fmt: skip
@trace_options
@click.option("--cycle", type=DURATION, metavar="DURATION",
              help="Run cycles periodically. Default: after each event, at most one in a second.")  # fmt: skip
@click.option("--checkpoint", type=DURATION, metavar="DURATION",
              help="Evicted jobs continue from their last checkpoint. Default: they start again.")  # fmt: skip
@click.option("--until", type=DURATION, metavar="DURATION", help="End the replay at this time of the trace.")
@click.option("--node-events", type=click.Path(), metavar="FILE",
              help="Nodes that join and leave: a YAML list like {at: 2h, leave: node-1}.")  # fmt: skip
@click.option("--sample", type=DURATION, metavar="DURATION",
              help="The interval of the samples over time. Default: about 500 intervals.")  # fmt: skip
@click.option("--gpu-resource", default="nvidia.com/gpu", show_default=True, metavar="NAME",
              help="The resource that the GPUs of the trace are requested as.")  # fmt: skip
@options.output("table", "json", "html")
@click.option("--jobs", type=click.Path(), metavar="FILE", help="Write a row for each job (.csv or .parquet).")
@click.option("--samples", type=click.Path(), metavar="FILE",
              help="Write a row for each interval, queue and resource (.csv or .parquet).")  # fmt: skip
@click.option("--html", type=click.Path(), metavar="FILE", help="Write the page with the plots.")
@click.option("--timings", type=click.Path(), metavar="FILE", help="Write the measured times of the cycles (JSON).")
@click.option("--processes", type=click.IntRange(min=1), metavar="N",
              help="Replay so many configurations at once. Default: as many as there are cores.")  # fmt: skip
@options.now
@options.scheduler_names
@options.keep_going
@options.verbosity
def replay(
    trace: tuple[str, ...],
    configs: tuple[str, ...],
    nodes: tuple[str, ...],
    cluster: tuple[str, ...],
    trace_format: str,
    columns: str,
    strict: bool,
    cycle: float | None,
    checkpoint: float | None,
    until: float | None,
    node_events: str | None,
    sample: float | None,
    gpu_resource: str,
    form: str,
    jobs: str | None,
    samples: str | None,
    html: str | None,
    timings: str | None,
    processes: int | None,
    now: float | None,
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    verbosity: int,
) -> None:
    """Replay a trace of jobs through the scheduler in virtual time.

    Jobs arrive, are scheduled by the same cycles as on a live cluster, run for their duration, finish, and are evicted
    and restarted. The result is the same for the same input; measured times go to stderr and to --timings.
    """
    from muster.cli.answer import waiting
    from muster.cli.reading import BadInput, config_from_flag, config_from_objects, load_and_report, print_findings
    from muster.model.finding import InputError
    from muster.process.memory import keep_freed_memory
    from muster.sim.replay.files import check_folder, check_path, write_jobs, write_samples
    from muster.sim.replay.node_events import read_node_events
    from muster.sim.replay.run import ReplayOptions
    from muster.sim.replay.several import replay_each

    keep_freed_memory()
    try:
        for path in filter(None, (jobs, samples)):
            check_path(path)
        for path in filter(None, (html, timings)):
            check_folder(path)
        texts = [text for text in map(config_from_flag, dict.fromkeys(configs)) if text is not None]
        manifests = read_replay_cluster(nodes, cluster, gpu_resource, keep_going)
        loaded = [
            load_and_report(text) for text in texts or [config_from_objects(manifests.objects, scheduler_names)]
        ]
        events = read_node_events(node_events, manifests.objects["Node"]) if node_events else []
        chosen = ReplayOptions(
            cycle=cycle, checkpoint=checkpoint, sample=sample, until=until, node_events=tuple(events),
            gpu_resource=gpu_resource, scheduler_names=scheduler_names, now=_start(now, cluster, manifests),
        )  # fmt: skip
        jobs_of_trace = read_traces(trace, trace_format=trace_format, columns=columns, strict=strict)
        workers = processes or os.cpu_count() or 1
        with waiting("replaying", "jobs" if len(loaded) == 1 or workers == 1 else "configurations") as shown:
            results = replay_each(jobs_of_trace, manifests.objects, loaded, chosen, workers, shown.update)
        for result in results:
            for warning in result.warnings:
                click.echo(f"warning: {result.name}: {warning}", err=True)
        if jobs:
            write_jobs(jobs, results)
        if samples:
            write_samples(samples, results)
    except InputError as fault:
        print_findings(fault.findings)
        raise BadInput(f"muster: {fault.message}") from None
    _show(results, loaded, form, html)
    _show_timings(results, timings)


def read_replay_cluster(
    nodes: tuple[str, ...], cluster: tuple[str, ...], gpu_resource: str, keep_going: bool
) -> Manifests:
    """Reads the cluster of --cluster, with the nodes of --nodes."""
    from muster.cli.reading import BadInput, print_findings
    from muster.cluster.manifests import Manifests
    from muster.sim.inputs import usable_cluster
    from muster.sim.traces import read_nodes

    if not nodes and not cluster:
        raise click.UsageError("give the nodes with --nodes FILE, or the cluster with --cluster FILE_OR_DIR")
    manifests = usable_cluster(cluster, keep_going=keep_going) if cluster else Manifests()
    print_findings(manifests.findings)
    listed = manifests.objects.setdefault("Node", {})
    for node in read_nodes(nodes, gpu_resource) if nodes else ():
        listed[node.metadata.name] = node
    if not listed:
        raise BadInput("muster: the cluster has no node (give nodes with --nodes FILE)")
    return manifests


def _start(now: float | None, cluster: tuple[str, ...], manifests: Manifests) -> float | None:
    """Returns the time at which the trace starts: that of a cluster with running pods, else that of the trace."""
    return now if now is not None or not cluster or not manifests.objects.get("Pod") else manifests.latest


def _show(results: list[Replay], loaded: list[LoadedConfig], form: str, html: str | None) -> None:
    from muster.cli.answer import console, print_json, print_page, row, table
    from muster.cli.origin import origin_rows
    from muster.sim.replay.metrics import metrics
    from muster.sim.replay.page import page
    from muster.sim.replay.tables import summary_tables

    configurations = [one.to_dict() for one in loaded]
    if html is not None or form == "html":
        title = f"Replay of {results[0].trace.source}"
        origin = [(f"configuration {r.name}", f"hash {one.hash}") for r, one in zip(results, loaded, strict=True)]
        made = page(results, title, [*origin_rows(), *origin])
        if html is not None:
            Path(html).write_text(made, encoding="utf-8")
        if form == "html":
            print_page(made)
    if form == "json":
        runs = [
            {"name": result.name, "configuration": configuration, **metrics(result)}
            for result, configuration in zip(results, configurations, strict=True)
        ]
        print_json({"trace": results[0].trace.source, "bad_rows": results[0].trace.bad_rows, "replays": runs})
    if form == "table":
        for made_table in summary_tables(results):
            shown = table(made_table.title, *made_table.head)
            for cells in made_table.rows:
                row(shown, *cells)
            console().print(shown)
            for note in made_table.notes:
                click.echo(note)


def _show_timings(results: list[Replay], path: str | None) -> None:
    """Writes what was measured: it differs from run to run."""
    from muster.sim.replay.metrics import timing_summary

    measured = {result.name: timing_summary(result) for result in results}
    for name, figures in measured.items():
        mean, most = (float(str(figures[key] or 0)) * 1000 for key in ("mean", "max"))
        total = figures["total"] or 0
        click.echo(f"{name}: {figures['cycles']:,} cycles, {mean:.2f} ms on average, at most {most:.1f} ms, "
                   f"{total:.1f} s in all", err=True)  # fmt: skip
    if path is not None:
        Path(path).write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
