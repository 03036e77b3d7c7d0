"""The NodeGroups: their nodes, how many are ready, what is in use, and what their status says."""

from __future__ import annotations

from muster.model.groups import NodeGroup
from muster.model.natural_order import natural
from muster.sim.report.elements import attribute, html_table, names, shown
from muster.sim.report.node_use import nodes_of
from muster.sim.report.squares import totals
from muster.sim.result import Result


def render(result: Result) -> str:
    """Returns a table of the NodeGroups with their nodes."""
    found = result.of(NodeGroup)
    if not found:
        return ""
    nodes = {node.name: node for node in nodes_of(result)}
    rows = []
    for name in sorted(found, key=natural):
        group = found[name]
        members = sorted(group.status.contained_nodes, key=natural)
        use = totals(nodes[member] for member in members if member in nodes).partition(": ")[2]
        state = "; ".join(f"{c.type} {c.status}: {c.message or c.reason}" for c in group.status.conditions)
        rows.append(
            f"<td{attribute('group', name)}>{shown(name)}</td><td class=\"n\">{group.status.ready_nodes:,} of "
            f"{len(members):,}</td><td>{shown(use)}</td><td>{names(members, 'node') or '–'}</td><td>{shown(state)}</td>"
        )
    head = ("node group", "ready nodes", "in use", "nodes", "status")
    return html_table(head, rows, "Node groups")
