"""`muster explain`: on which node a pod would be placed, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import plural, row, some, styled, table
from muster.cli.help import Command

if TYPE_CHECKING:
    from rich.console import Console

    from muster.sim.explain import Explanation


@click.command(cls=Command, example="muster explain default/train-0 -f cluster.yaml job.yaml")
@click.argument("pod", metavar="NS/POD")
@options.config
@options.files(required=False)
@click.option("--live", is_flag=True, help="Use the running cluster instead of manifests.")
@options.kubeconfig
@options.output("table", "json")
@click.option("--sets", is_flag=True, help="Show the node sets that the pod's group is tried on, and the results.")
@options.now
@options.workload_kinds
@options.scheduler_names
@options.keep_going
@options.feature_gates
@options.verbosity
def explain(
    pod: str,
    config: str | None,
    files: tuple[str, ...],
    live: bool,
    kubeconfig: str | None,
    context: str | None,
    form: str,
    sets: bool,
    now: float | None,
    workload_kinds: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    feature_gates: dict[str, bool] | None,
    verbosity: int,
) -> None:
    """Show which nodes fit a pod, why not, and how each is scored.

    The answer is about the state at the start of the next cycle. Nodes that refuse the pod are scored, too. With --live
    the configuration is that of the running scheduler, unless -c names another.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.configuration import config_from_flag, config_from_objects, load_and_report
    from muster.cli.reading import BadInput, log, read_manifests
    from muster.model.finding import InputError
    from muster.sim.api import explain as run

    text = config_from_flag(config)
    one = None if text is None else load_and_report(text)
    if live == bool(files):
        raise click.UsageError("give either manifests with -f FILE_OR_DIR, or --live")
    if live:
        from muster.cli.live import read_cluster

        manifests = read_cluster(kubeconfig, context, workload_kinds=workload_kinds)
        now = time.time() if now is None else now
    else:
        manifests = read_manifests(files, keep_going=keep_going, workload_kinds=workload_kinds)
    one = one or load_and_report(config_from_objects(manifests.objects, scheduler_names))
    try:
        with waiting("explaining"):
            answer = run(
                pod, manifests, config=one, sets=sets, now=now, scheduler_names=scheduler_names,
                keep_going=True, feature_gates=feature_gates, log=log,
            )  # fmt: skip
    except InputError as why:
        raise BadInput(f"muster: {why.message}") from None
    for warning in answer.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        print_json(answer.to_dict())
    else:
        click.echo(f"configuration: {one}")
        show_explanation(console(), answer, sets=sets)


MAX_NODES = 200
MAX_PICTURES = 10  # nodes whose devices are drawn, the best first


def show_explanation(console: Console, answer: Explanation, *, sets: bool) -> None:
    ranked = sorted(answer.nodes.items(), key=lambda entry: (not entry[1].feasible, -entry[1].total, entry[0]))
    scorers = sorted({plugin for _, trace in ranked for plugin in trace.scores})
    noted = any(trace.notes for _, trace in ranked)
    nodes = table(f"Nodes for {answer.pod}", "node", "", "total", *scorers, "why not", *["state"] * noted)
    for name, trace in ranked[:MAX_NODES]:
        why = "; ".join(f"{plugin}: {text}" for plugin, _, text in trace.reasons)
        fits = styled("fits", "green") if trace.feasible else styled("no", "red")
        scores = (_number(trace.scores.get(scorer, 0)) for scorer in scorers)
        notes = ["; ".join(trace.notes.values())] * noted
        row(nodes, name, fits, _number(trace.total), *scores, why, *notes)
    console.print(nodes)
    if len(ranked) > MAX_NODES:
        console.print(f"… and {len(ranked) - MAX_NODES:,} more nodes; -o json has all")
    for _, trace in ranked[:MAX_PICTURES]:
        for picture in trace.pictures:
            console.print(styled(picture.text()), soft_wrap=True)
    if sets:
        _sets(console, answer)
    if answer.gpu_fragmentation is not None:
        console.print(str(answer.gpu_fragmentation))
    console.print(styled(_decision(answer), "bold"))


def _number(score: float) -> str:
    return f"{score:.4g}" if abs(score) < 10_000 else f"{score:,.0f}"


def _sets(console: Console, answer: Explanation) -> None:
    if answer.sets is None:
        console.print("No plugin divides the nodes for this pod's group: all of them are one set.")
        return
    tried = table("Node sets in the order of trial", "set", "nodes", "placed", "holds it", "why not")
    for one in answer.sets:
        holds = styled("yes", "green") if one.holds else styled("no", "red")
        row(tried, one.label, some(one.nodes), f"{one.placed} of {one.wanted}", holds, one.reason)
    console.print(tried)


def _decision(answer: Explanation) -> str:
    fits = sum(1 for trace in answer.nodes.values() if trace.feasible)
    fit = f"{answer.pod} fits {fits} of {plural(len(answer.nodes), 'node')}; "
    decision = answer.decision
    if decision.node is not None:
        return f"{fit}the next cycle binds it to {decision.node}"
    return f"{fit}the next cycle leaves it pending: {decision.reason}"
