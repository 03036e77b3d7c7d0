"""The explanation of one pod: the decision, the nodes × plugins heat map, refusals, node sets, victims and protections.

It is rendered from the keys of `muster explain -o json`, which are a contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.sim.explain import Explanation
from muster.sim.report.elements import (
    attribute,
    empty,
    html_table,
    names,
    node_link,
    pod_link,
    shown,
    table,
    without_numbers,
)
from muster.sim.report.summary import warning_list

MAX_NODES = 40  # rows of the heat map
MAX_OPTIONS = 20
MAX_PROTECTED = 50
SHADES = 8  # classes heat0 to heat8

Plain = Mapping[str, Any]


def render(explanation: Explanation) -> str:
    """Returns the explanation."""
    plain = explanation.to_dict()
    return rendered(plain)


def rendered(plain: Plain) -> str:
    """Returns an explanation that is given as the keys of its JSON."""
    parts = [
        _decision(plain),
        warning_list([*plain.get("warnings", ()), *plain.get("notes", ())]),
        _part("Which scores decided", _deciding(plain.get("deciding"))),
        _part("Scores", _heat_map(plain["nodes"])),
        _part("Refusals", _refusals(plain["nodes"])),
        _part("Node sets", _sets(plain.get("sets") or ())),
        _part("Evictions that would help", _options(plain.get("evictions") or ())),
    ]
    return "\n".join(part for part in parts if part)


def _part(title: str, body: str) -> str:
    return f"<h3>{title}</h3>\n{body}" if body else ""


def _decision(plain: Plain) -> str:
    decision = plain["decision"]
    if decision.get("node"):
        text = f"placed on {node_link(decision['node'])}"
    elif decision.get("pipelined"):
        text = f"waits for capacity that is being released on {node_link(decision['pipelined'])}"
    else:
        text = "has no node"
    when = ""
    if plain.get("cycle"):
        when = f" in cycle {plain['cycle']:,}, after {plain.get('placed_before', 0):,} other pods were placed in it"
    lines = [f"<p><b>{pod_link(plain['pod'])}</b> {text}{when}.</p>"]
    if decision.get("reason"):
        lines.append(f"<p>{shown(decision['reason'], 2000)}</p>")
    lines.append(f'<p class="soft">queue {shown(plain["queue"] or "–")}, group {shown(plain["group"] or "–")}</p>')
    if gang := plain.get("gang"):
        lines.append(f"<p>{_gang(gang)}</p>")
    if evicted := plain.get("evicted"):
        text = f"evicted from {evicted.get('node')} in cycle {evicted.get('cycle')} for {evicted.get('for')}"
        text += f" by {evicted.get('action')} ({evicted.get('rule')}): {evicted.get('why')}"
        lines.append(f"<p>{shown(text, 1000)}</p>")
    return "\n".join(lines)


def _gang(gang: Plain) -> str:
    text = f"gang {gang['name']}: {gang['placed']:,} of {gang['pods']:,} pods placed, minimum {gang['minimum']:,}"
    failing = gang.get("failing")
    if not failing:
        return shown(text)
    role = f" (role {failing['role']})" if failing.get("role") else ""
    return f"{shown(text)}; {pod_link(failing['pod'])}{shown(role)} fails: {shown(str(failing['reason']), 1000)}"


def _deciding(deciding: Plain | None) -> str:
    if not deciding or not deciding.get("terms"):
        return ""
    chosen, other = deciding["node"], deciding["runner_up"]
    rows = [
        (one["plugin"], one["term"] or "", _score(one["node"]), _score(one["runner_up"]), f"{one['difference']:+.6g}")
        for one in deciding["terms"]
    ]
    caption = f"{chosen} is ahead of {other} by {deciding['difference']:.6g}"
    return table(("plugin", "term", str(chosen), str(other), "difference"), rows, caption)


def _heat_map(nodes: Mapping[str, Plain]) -> str:
    """Returns a table of the feasible nodes, the best first; the darker a cell, the higher the score in its column."""
    ranked = sorted((n for n in nodes if nodes[n]["feasible"]), key=lambda n: (-nodes[n]["total"], n))
    if not ranked:
        return empty("No node is feasible.") if nodes else empty("There are no nodes.")
    plugins = [
        plugin for plugin in nodes[ranked[0]]["scores"] if any(nodes[name]["scores"].get(plugin) for name in ranked)
    ]
    ends = {
        plugin: (min(values), max(values))
        for plugin in plugins
        for values in [[nodes[name]["scores"].get(plugin, 0.0) for name in ranked]]
    }
    rows = []
    for name in ranked[:MAX_NODES]:
        scores = nodes[name]["scores"]
        cells = "".join(_cell(scores.get(plugin, 0.0), *ends[plugin]) for plugin in plugins)
        rows.append(
            f'<th scope="row"{attribute("node", name)}>{shown(name)}</th>{cells}'
            f'<td class="n"><b>{_score(nodes[name]["total"])}</b></td>'
        )
    more = empty(f"and {len(ranked) - MAX_NODES:,} feasible nodes more") if len(ranked) > MAX_NODES else ""
    caption = f"Scores of {len(ranked):,} of {len(nodes):,} nodes that are feasible, the best first"
    return html_table(("node", *plugins, "total"), rows, caption, "heat") + more


def _cell(value: float, low: float, high: float) -> str:
    shade = round(SHADES * (value - low) / (high - low)) if high > low else 0
    return f'<td class="n heat{shade}">{_score(value)}</td>'


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"


def _refusals(nodes: Mapping[str, Plain]) -> str:
    """Returns the reasons of the nodes that are not feasible, the most frequent first; numbers make no difference."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    cured: dict[tuple[str, str], bool] = {}
    for name, node in nodes.items():
        for reason in node["reasons"]:
            key = reason["plugin"], without_numbers(reason["text"])
            found.setdefault(key, []).append((name, reason["text"]))
            cured[key] = cured.get(key, False) or reason["resolvable"]
    rows = []
    for key in sorted(found, key=lambda key: (-len(found[key]), key)):
        entries = found[key]
        rows.append(
            f'<td class="n">{len(entries):,}</td><td>{shown(entries[0][1], 1000)}</td><td>{shown(key[0])}</td>'
            f"<td>{'yes' if cured[key] else 'no'}</td><td>{names([name for name, _ in entries], 'node')}</td>"
        )
    head = ("nodes", "why (of the first node)", "plugin", "evictions could help", "which")
    return html_table(head, rows, "Nodes that are not feasible") if rows else ""


def _sets(sets: Sequence[Plain]) -> str:
    rows = []
    for one in sets[:MAX_NODES]:
        verdict = "fits" if one["holds"] else str(one["reason"])
        placed = f"{one['placed']:,} of {one['wanted']:,}"
        rows.append((one["label"], f"{len(one['nodes']):,}", placed, verdict))
    return table(("set", "nodes", "pods placed", "outcome"), rows, "Node sets in the order of trial") if rows else ""


def _options(options: Sequence[Plain]) -> str:
    parts = []
    for option in options[:MAX_OPTIONS]:
        verdict = "possible" if option["possible"] else "not possible"
        head = f"<b>{shown(option['where'])}</b>: {verdict}. {shown(option['text'], 1000)}"
        victims = [(v["pod"], v["group"], v["queue"], str(v["priority"]), v["node"]) for v in option["victims"]]
        protected = [(p["pod"], p["group"], p["rule"], p["plugin"], p["text"]) for p in option["protected"]]
        parts.append(f"<p{attribute('node', option['where'])}>{head}</p>")
        if victims:
            head_row = ("pod", "group", "queue", "priority", "node")
            parts.append(table(head_row, victims[:MAX_PROTECTED], f"Would be evicted on {option['where']}"))
        if protected:
            head_row = ("pod", "group", "rule", "plugin", "why")
            parts.append(table(head_row, protected[:MAX_PROTECTED], f"Protected on {option['where']}"))
    if len(options) > MAX_OPTIONS:
        parts.append(empty(f"and {len(options) - MAX_OPTIONS:,} more"))
    return "\n".join(parts)
