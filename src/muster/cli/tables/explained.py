"""The tables of `muster explain`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from muster.cli.tables.parts import plural, row, some, table
from muster.sim.explain import Explanation

MOST_NODES = 200


def show_explanation(console: Console, answer: Explanation, *, sets: bool) -> None:
    ranked = sorted(answer.nodes.items(), key=lambda entry: (not entry[1].feasible, -entry[1].total, entry[0]))
    scorers = sorted({plugin for _, trace in ranked for plugin in trace.scores})
    nodes = table(f"Nodes for {answer.pod}", "node", "", "total", *scorers, "why not")
    for name, trace in ranked[:MOST_NODES]:
        why = "; ".join(f"{plugin}: {text}" for plugin, _, text in trace.reasons)
        fits = Text("fits", "green") if trace.feasible else Text("no", "red")
        row(nodes, name, fits, f"{trace.total:.4g}", *(f"{trace.scores.get(s, 0):.4g}" for s in scorers), why)
    console.print(nodes)
    if len(ranked) > MOST_NODES:
        console.print(f"… and {len(ranked) - MOST_NODES:,} nodes more; -o json has all")
    if sets:
        _sets(console, answer)
    console.print(Text(_decision(answer), "bold"))


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
