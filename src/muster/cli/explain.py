"""`muster explain`: on which node a pod would be placed, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import is_wide, plural, row, some, styled, table
from muster.cli.help import Command
from muster.model.natural_order import natural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from muster.engine.placement.trace import NodeTrace
    from muster.sim.changes import Changes
    from muster.sim.eviction_options import EvictionOption
    from muster.sim.explain import Explanation
    from muster.sim.explain.explanation import Deciding, Gang


@click.command(cls=Command, example="muster explain default/train-0 -f cluster.yaml job.yaml")
@click.argument("pod", metavar="POD")
@click.option("-n", "--namespace", help="The namespace of a POD that is written as NAME or KIND/NAME.")
@options.config
@options.files(required=False)
@click.option("--live", is_flag=True, help="Use the running cluster instead of manifests.")
@options.kubeconfig
@options.output("table", "wide", "json")
@click.option("--node", "only", multiple=True, metavar="NODE",
              help="Show only this node. May be given several times.")  # fmt: skip
@options.changes
@click.option("--sets", is_flag=True, help="Show the node sets that the pod's group is tried on, and the results.")
@click.option("--cycle", type=click.IntRange(min=1), help="Show this cycle instead of the one that decided.")
@click.option("--before", is_flag=True, help="Show the state before the first cycle.")
@options.inputs
def explain(
    pod: str,
    namespace: str | None,
    config: str | None,
    files: tuple[str, ...],
    live: bool,
    kubeconfig: str | None,
    context: str | None,
    form: str,
    only: tuple[str, ...],
    changes: Changes,
    sets: bool,
    cycle: int | None,
    before: bool,
    inputs: options.Inputs,
) -> None:
    """Show which nodes fit a pod, why not, and how each is scored.

    POD is NS/POD, or an owner or gang as KIND/NAME with -n, or as NS/KIND/NAME: then the pod that fails is explained.
    The answer is about the moment when the pod's turn came, in the cycle that bound it, else in the last cycle. Nodes
    that refuse the pod are scored, too. With --live the configuration is that of the running scheduler, unless -c names
    another. The options --clone-node, --set, --cordon and --remove change the input first, in this order.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.reading import BadInput, config_of, given_config, log
    from muster.model.finding import InputError
    from muster.sim.api import explain as run
    from muster.sim.changes import changed

    one = given_config(config)
    if live == bool(files):
        raise click.UsageError("give either manifests with -f FILE_OR_DIR, or --live")
    manifests, now = inputs.read_files_or_live(files, kubeconfig, context)
    one = one or config_of(manifests.objects, inputs.scheduler_names)
    try:
        manifests = changed(manifests, changes)
        with waiting("explaining"):
            answer = run(
                pod, manifests, config=one, sets=sets, cycle=cycle, before=before, namespace=namespace, now=now,
                scheduler_names=inputs.scheduler_names, keep_going=True, feature_gates=inputs.feature_gates, log=log,
            )  # fmt: skip
        nodes = _only(answer, only)
    except InputError as why:
        raise BadInput(f"muster: {why.message}") from None
    for warning in answer.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        print_json(replace(answer, nodes=nodes).to_dict())
    else:
        click.echo(f"configuration: {one}")
        show_explanation(console(), answer, sets=sets, nodes=nodes)


def _only(answer: Explanation, names: tuple[str, ...]) -> dict[str, NodeTrace]:
    """Returns the nodes to show: all, or those of --node."""
    from muster.config.names import suggest
    from muster.model.finding import InputError

    for name in names:
        if name not in answer.nodes:
            raise InputError(f"--node {name}: there is no such node: {suggest(name, answer.nodes)}")
    return {name: answer.nodes[name] for name in names} if names else answer.nodes


MAX_NODES = 200
MAX_OPTIONS = 10  # nodes or sets whose evictions are shown
MAX_PROTECTED = 3  # protected pods in a row
MAX_PICTURES = 10  # nodes whose devices are drawn, the best first


def show_explanation(
    console: Console, answer: Explanation, *, sets: bool, nodes: Mapping[str, NodeTrace] | None = None
) -> None:
    """Prints the answer; `nodes` are the nodes to show if these are not all."""
    console.print(styled(moment(answer), "bold"))
    for note in answer.notes:
        console.print(styled(f"note: {note}"))
    if answer.nodes:
        _nodes(console, answer, answer.nodes if nodes is None else nodes)
    if sets:
        _sets(console, answer)
    elif answer.node_set:
        first = "the first in the order of trial that holds the group"
        console.print(styled(f"node set: {answer.node_set}, {first}; --sets shows all"))
    if answer.gpu_fragmentation is not None:
        console.print(str(answer.gpu_fragmentation))
    if answer.gang is not None:
        console.print(styled(_gang(answer.gang)))
    if answer.evictions:
        show_options(console, answer.evictions)
    if answer.evicted is not None:
        why = "{action} evicted it from {node} in cycle {cycle} for {for}: {why}".format(**answer.evicted)
        console.print(styled(why))
    if answer.deciding is not None:
        console.print(styled(_deciding(answer.deciding)))
    console.print(styled(_decision(answer), "bold"))


def moment(answer: Explanation) -> str:
    """Returns the headline: the moment whose state is shown."""
    if not answer.cycle:
        return f"{answer.pod}: before the first cycle"
    placed = f"after {plural(answer.placed_before, 'pod')} {'was' if answer.placed_before == 1 else 'were'} placed"
    return f"{answer.pod}: cycle {answer.cycle}, {placed if answer.placed_before else 'before any pod was placed'}"


def _nodes(console: Console, answer: Explanation, shown: Mapping[str, NodeTrace]) -> None:
    def rank(entry: tuple[str, NodeTrace]) -> tuple[object, ...]:
        return not entry[1].feasible, not entry[1].candidate, -entry[1].total, natural(entry[0])

    ranked = sorted(shown.items(), key=rank)
    most, drawn = (len(ranked), len(ranked)) if is_wide() else (MAX_NODES, MAX_PICTURES)
    terms = _terms(ranked) if is_wide() else []
    scorers = sorted({plugin for _, trace in ranked for plugin in trace.scores})
    noted = any(trace.notes for _, trace in ranked)
    columns = [*scorers, *(f"{plugin}/{term}" for plugin, term in terms), "why not", *["state"] * noted]
    nodes = table(f"Nodes for {answer.pod}", "node", "", "total", *columns)
    for name, trace in ranked[:most]:
        why = "; ".join(f"{plugin}: {text}" for plugin, _, text in trace.reasons)
        fits = _fits(answer, name, trace)
        scores = [_number(trace.scores.get(scorer, 0)) for scorer in scorers]
        scores += [_number(trace.terms.get(plugin, {}).get(term, 0)) for plugin, term in terms]
        notes = ["; ".join(trace.notes.values())] * noted
        row(nodes, name, fits, _number(trace.total), *scores, why, *notes)
    console.print(nodes)
    if len(ranked) > most:
        console.print(f"… and {len(ranked) - most:,} more nodes; -o wide shows all")
    for _, trace in ranked[:drawn]:
        for picture in trace.pictures:
            console.print(styled(picture.text()), soft_wrap=True)


def _terms(ranked: list[tuple[str, NodeTrace]]) -> list[tuple[str, str]]:
    """Returns the terms of all scores, by plugin."""
    return sorted({(plugin, term) for _, trace in ranked for plugin, of in trace.terms.items() for term in of})


def _fits(answer: Explanation, name: str, trace: NodeTrace) -> Text:
    """Returns whether a node fits; if so, whether it was one of the nodes to choose from."""
    if not trace.feasible:
        return styled("no", "red")
    if trace.candidate or not any(one.candidate for one in answer.nodes.values()):
        return styled("fits", "green")
    if answer.tried is None or name in answer.tried:
        return styled("fits later", "yellow")  # once capacity is released
    return styled("fits, not in the set" if answer.node_set else "fits, not tried", "yellow")


def _number(score: float) -> str:
    return f"{score:.4g}" if abs(score) < 10_000 else f"{score:,.0f}"


def _sets(console: Console, answer: Explanation) -> None:
    if answer.sets is None:
        console.print("No plugin divides the nodes for this pod's group: all of them are one set.")
        return
    tried = table("Node sets in the order of trial", "set", "nodes", "placed", "holds it", "why")
    for one in answer.sets:
        holds = styled("yes", "green") if one.holds else styled("no", "red")
        row(tried, one.label, some(one.nodes), f"{one.placed} of {one.wanted}", holds, one.reason)
    console.print(tried)
    if answer.set_order:
        console.print(styled(f"order of trial: {answer.set_order}"))


def show_options(console: Console, found: Sequence[EvictionOption]) -> None:
    """Prints what evictions could do: one row for each node or set; one line if the answer is the same everywhere."""
    if len(found) == 1 and not found[0].where:
        console.print(styled(f"evictions: {found[0].text}"))
        return
    shown = table("Evictions that would make way", "where", "", "result", "protected")
    for option in found[:MAX_OPTIONS]:
        possible = styled("possible", "green") if option.possible else styled("no", "red")
        kept = [f"{one.pod} ({one.text})" for one in option.protected]
        more = [f"and {len(kept) - MAX_PROTECTED:,} more"] * (len(kept) > MAX_PROTECTED)
        row(shown, option.where, possible, option.text, "; ".join([*kept[:MAX_PROTECTED], *more]))
    console.print(shown)
    if len(found) > MAX_OPTIONS:
        console.print(f"… and {len(found) - MAX_OPTIONS:,} more nodes or sets; -o json has them")


def _gang(gang: Gang) -> str:
    text = f"gang {gang.name}: {gang.placed} of {plural(gang.pods, 'pod')} have a node, {gang.minimum} are needed"
    if gang.failing is None:
        return text
    role = f" (role {gang.failing.role})" if gang.failing.role else ""
    return f"{text}; it fails at {gang.failing.pod}{role}: {gang.failing.reason}"


def _deciding(deciding: Deciding) -> str:
    node, other = deciding.node, deciding.runner_up
    terms = ", ".join(
        f"{one.plugin}{f'/{one.term}' if one.term else ''} {one.difference:+.4g}" for one in deciding.terms
    )
    if not deciding.difference:
        return f"{node} and {other} have the same total; the first in the order of nodes was taken"
    return f"{node} is {deciding.difference:.4g} ahead of {other}: {terms}"


def _decision(answer: Explanation) -> str:
    fits = sum(1 for trace in answer.nodes.values() if trace.feasible)
    fit = f"{answer.pod} fits {fits} of {plural(len(answer.nodes), 'node')}; " if answer.nodes else f"{answer.pod}: "
    which = f"cycle {answer.cycle}" if answer.cycle else "the next cycle"
    decision = answer.decision
    if decision.node is not None:
        return f"{fit}{which} binds it to {decision.node}"
    if not answer.nodes:
        return f"{fit}{decision.reason}"
    return f"{fit}{which} leaves it pending: {decision.reason}"
