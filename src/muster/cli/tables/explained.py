"""The tables of `muster explain`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from muster.cli.tables.parts import plural, row, some, table
from muster.sim.explain import Explanation

MOST_NODES = 200
MOST_PICTURES = 10  # nodes whose devices are drawn, the best first


def show_explanation(console: Console, answer: Explanation, *, sets: bool) -> None:
    ranked = sorted(answer.nodes.items(), key=lambda entry: (not entry[1].feasible, -entry[1].total, entry[0]))
    scorers = sorted({plugin for _, trace in ranked for plugin in trace.scores})
    noted = any(trace.notes for _, trace in ranked)
    nodes = table(f"Nodes for {answer.pod}", "node", "", "total", *scorers, "why not", *["standing"] * noted)
    for name, trace in ranked[:MOST_NODES]:
        why = "; ".join(f"{plugin}: {text}" for plugin, _, text in trace.reasons)
        fits = Text("fits", "green") if trace.feasible else Text("no", "red")
        scores = (_number(trace.scores.get(scorer, 0)) for scorer in scorers)
        standing = ["; ".join(trace.notes.values())] * noted
        row(nodes, name, fits, _number(trace.total), *scores, why, *standing)
    console.print(nodes)
    if len(ranked) > MOST_NODES:
        console.print(f"… and {len(ranked) - MOST_NODES:,} nodes more; -o json has all")
    for _, trace in ranked[:MOST_PICTURES]:
        for picture in trace.pictures:
            console.print(Text(picture.text()), soft_wrap=True)
    if sets:
        _sets(console, answer)
    console.print(Text(_decision(answer), "bold"))


def _number(score: float) -> str:
    return f"{score:.4g}" if abs(score) < 10_000 else f"{score:,.0f}"


def _sets(console: Console, answer: Explanation) -> None:
    if answer.sets is None:
        console.print("No plugin divides the nodes for this pod's group: all of them are one set.")
        return
    tried = table("Node sets in the order of trial", "set", "nodes", "placed", "holds it", "why not")
    for one in answer.sets:
        holds = Text("yes", "green") if one.holds else Text("no", "red")
        row(tried, one.label, some(one.nodes), f"{one.placed} of {one.wanted}", holds, one.reason)
    console.print(tried)


def _decision(answer: Explanation) -> str:
    fits = sum(1 for trace in answer.nodes.values() if trace.feasible)
    said = f"{answer.pod} fits {fits} of {plural(len(answer.nodes), 'node')}; "
    decision = answer.decision
    if decision.node is not None:
        return f"{said}the next cycle binds it to {decision.node}"
    return f"{said}the next cycle leaves it pending: {decision.reason}"
