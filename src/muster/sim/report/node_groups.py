"""NodeGroups and their policies: the nodes of each group, the desired and the current pods of each application in each
group, and the moves between groups."""

from __future__ import annotations

from collections.abc import Iterator

from muster.groupctl.controllers.override import RULE as OVERRIDE
from muster.groupctl.controllers.propagation import RULE as PROPAGATION
from muster.model.groups import BoundApplication, NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.natural_order import natural
from muster.sim.report.elements import Piece, attribute, bar, empty, html_table, names, node_link, pod_link, shown
from muster.sim.report.node_use import nodes_of
from muster.sim.report.nodes import totals
from muster.sim.result import Result

MAX_MOVES = 100
HEAD = ("application", "node group", "", "current", "desired", "ready", "to do")


def policies(result: Result) -> str:
    """Returns a table for each policy, and the pods that it moves: those that it evicts in this run."""
    parts = []
    both: list[tuple[str, PropagationPolicy | OverridePolicy]] = [
        *sorted(result.of(PropagationPolicy).items()), *sorted(result.of(OverridePolicy).items())
    ]  # fmt: skip
    for key, policy in both:
        rows = [row for app in policy.status.applications for row in _rows(app)]
        parts.append(f"<h3{attribute('policy', key)}>{policy.kind} {shown(key)}</h3>")
        parts += [f'<p class="warning">{shown(line)}</p>' for line in _remarks(policy)]
        parts.append(html_table(HEAD, rows, f"Applications of {key}") if rows else empty("No application is bound."))
        parts.append(_moves(result, key, PROPAGATION if isinstance(policy, PropagationPolicy) else OVERRIDE))
    legend = ['<p class="soft">In a bar of all replicas: D desired.</p>'] if parts else []
    return "\n".join(part for part in [*legend, *parts] if part)


def _remarks(policy: PropagationPolicy | OverridePolicy) -> Iterator[str]:
    """Yields what the policy's status reports as not satisfied."""
    for condition in policy.status.conditions:
        if condition.status != "True":
            yield f"{condition.type} {condition.status}: {condition.message or condition.reason}"
    for app in policy.status.applications:
        yield from (f"{app.kind} {app.name}: {warning}" for warning in app.warnings)


def _rows(app: BoundApplication) -> Iterator[str]:
    counts: list[tuple[str, int, int | None, int | None]] = [
        (group.name, group.current, group.desired, group.ready) for group in app.groups
    ]
    counts += [(name, n, None, None) for name, n in sorted(app.editions.items())]
    rest = (("misplaced", app.misplaced), ("pending", app.pending), ("outdated", app.outdated))
    note = ", ".join(f"{n:,} {word}" for word, n in rest if n)
    named = f"{app.kind} {app.name}: {app.replicas:,} pods" + (f" ({note})" if note else "")
    for i, (group, current, desired, ready) in enumerate(counts or [("–", 0, None, None)]):
        head = f'<th scope="rowgroup" rowspan="{max(len(counts), 1)}">{shown(named)}</th>' if i == 0 else ""
        whole = max(app.replicas, current, desired or 0, 1)
        drawn = bar([Piece(current / whole, "q h0")], {} if desired is None else {"D": desired / whole})
        todo = "" if desired is None else f"{desired - current:+,}" if desired != current else "none"
        cells = "".join(f'<td class="n">{"–" if n is None else f"{n:,}"}</td>' for n in (current, desired, ready))
        yield f'{head}<td{attribute("group", group)}>{shown(group)}</td><td>{drawn}</td>{cells}<td>{todo}</td>'


def _moves(result: Result, policy: str, rule: str) -> str:
    groups = {
        node: name
        for name, group in sorted(result.of(NodeGroup).items(), reverse=True)
        for node in group.status.contained_nodes
    }
    moves = [e for e in result.evictions if e.by == policy and e.rule == rule]
    rows = [
        f"<td>{pod_link(e.pod)}</td><td>{node_link(e.node)}</td><td>{shown(groups.get(e.node, '–'))}</td>"
        f"<td>{shown(e.rule)}</td>"
        for e in moves[:MAX_MOVES]
    ]
    more = empty(f"and {len(moves) - MAX_MOVES:,} more") if len(moves) > MAX_MOVES else ""
    return html_table(("evicted pod", "node", "node group", "rule"), rows, f"Moves by {policy}") + more if moves else ""


def node_groups(result: Result) -> str:
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
