"""`simulate -o html`: one self-contained page that shows the placements as a picture. No script, nothing from outside.

Everything that comes from the input is escaped on its way into the page; what is not escaped is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from muster.engine.core.resources import exact_sum
from muster.model.quantity import display
from muster.sim.picture import BEFORE, HUE_STEP_DEGREES, LEAVING, MAX_NODES, NEW, NodeBox, PodMark, boxes, trees
from muster.sim.result import Comparison, Result

MAX_PODS = 40  # names in one node's box
MAX_BARS = 4
STATES = {NEW: "placed by this run", BEFORE: "there before", LEAVING: "being evicted"}


def page(result: Result, title: str) -> str:
    """Returns the report of one run."""
    return document(title, [_run(result, title, "h1")])


def comparison_page(comparison: Comparison) -> str:
    """Returns the reports of two runs below their differences."""
    one, two = comparison.names
    rows = [(pod, a or "–", b or "–") for pod, (a, b) in comparison.placements.items()]
    waits = [(pod, a or "–", b or "–") for pod, (a, b) in comparison.pending.items()]
    figures = [
        (f"fragmentation of {name}", *("–" if x is None else f"{x:.1%}" for x in pair))
        for name, pair in comparison.fragmentation.items()
    ]
    for queue, (a_used, b_used) in comparison.allocated.items():
        figures += [
            (f"queue {queue}, {name}", display(name, a_used.get(name, 0)), display(name, b_used.get(name, 0)))
            for name in sorted({*a_used, *b_used} - {"pods"})
        ]
    parts = [
        f"<h1>{escape(one)} and {escape(two)}</h1>",
        section("Figures", table(("", one, two), figures)),
        section("Placements that differ", table(("pod", one, two), rows)) if rows else "",
        section("Pending pods that differ", table(("pod", one, two), waits)) if waits else "",
        _run(comparison.first, one, "h2"),
        _run(comparison.second, two, "h2"),
    ]
    return document(f"{one} and {two}", parts)


def document(title: str, parts: Iterable[str], verb: str = "simulate") -> str:
    """Returns a whole page made of parts in HTML."""
    style = files("muster.sim").joinpath("report.css").read_text("utf-8")
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" '
        f'content="light dark">\n<title>{escape(title)} · muster {verb}</title>\n<style>\n{style}</style>\n</head>\n'
    )
    return f"{head}<body>\n" + "\n".join(part for part in parts if part) + "\n</body>\n</html>\n"


def _run(result: Result, title: str, heading: str) -> str:
    nodes = boxes(result)
    hues = _hues(result, nodes)
    summary = result.summary
    parts = [
        f"<{heading}>{escape(title)}</{heading}>",
        _figures(result),
        *(f'<p class="warning">{escape(warning)}</p>' for warning in summary.warnings),
        section("Nodes", _legend(hues) + _nodes(nodes, hues)),
        section("Topology", tree) if (tree := trees(result)) else "",
        section("Queues", _queues(result, hues)),
        section("Pending", _pending(result)) if result.pending else "",
        section("Evicted", _evictions(result)) if result.evictions else "",
        section("Placements", _placements(result)) if result.binds else "",
    ]
    return "\n".join(part for part in parts if part)


def drawn(result: Result) -> str:
    """Draws the nodes in their current state, with their pods in the colours of their queues."""
    nodes = boxes(result)
    hues = _hues(result, nodes)
    return _legend(hues) + _nodes(nodes, hues)


def _hues(result: Result, nodes: Sequence[NodeBox]) -> dict[str, int]:
    queues = sorted({*result.summary.queues, *(pod.queue for box in nodes for pod in box.pods if pod.queue)})
    return {name: round(210 + i * HUE_STEP_DEGREES) % 360 for i, name in enumerate(queues)}


def section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def _figures(result: Result) -> str:
    summary = result.summary
    figures: list[tuple[str, str, bool]] = [
        (f"{summary.bound:,}", "bound", False),
        (f"{summary.pending:,}", "pending", summary.pending > 0),
        (f"{summary.evicted:,}", "evicted", False),
        (f"{summary.nodes:,}", "nodes", False),
        (f"{result.cycles:,}", "cycles" if summary.settled else "cycles, not settled", False),
    ]
    figures += [(f"{share:.1%}", f"fragmentation of {name}", False) for name, share in summary.fragmentation.items()]
    if (gpus := summary.gpu_fragmentation) is not None:
        text = f"fragmented GPUs of {gpus.total:,} ({gpus.ratio:.1%} of the idle)"
        figures.append((f"{gpus.amount:.2f}", text, False))
    cells = (
        f'<div class="figure{" bad" if bad else ""}"><b>{escape(value)}</b>{escape(what)}</div>'
        for value, what, bad in figures
    )
    return f'<div class="figures">{"".join(cells)}</div>'


def _legend(hues: Mapping[str, int]) -> str:
    queues = (f'<span><i class="q" style="--h:{hue}"></i>queue {escape(name)}</span>' for name, hue in hues.items())
    states = (f'<span><i class="q {state}" style="--h:210"></i>{text}</span>' for state, text in STATES.items())
    other = '<span><i class="q other"></i>another scheduler’s</span>'
    return f'<div class="legend">{"".join(queues)}{other}</div><div class="legend soft">{"".join(states)}</div>'


def _nodes(nodes: Sequence[NodeBox], hues: Mapping[str, int]) -> str:
    groups: dict[str, list[NodeBox]] = {}
    for box in nodes[:MAX_NODES]:
        groups.setdefault(box.group, []).append(box)
    parts = []
    for group, members in groups.items():
        if group or len(groups) > 1:
            parts.append(f"<h3>{escape(f'node group {group}' if group else 'no node group')}</h3>")
        parts.append(f'<div class="nodes">{"".join(_node(box, hues) for box in members)}</div>')
    if len(nodes) > MAX_NODES:
        parts.append(f'<p class="soft">and {len(nodes) - MAX_NODES:,} nodes more</p>')
    return "\n".join(parts) if nodes else '<p class="soft">There are no nodes.</p>'


def _node(box: NodeBox, hues: Mapping[str, int]) -> str:
    resources = [name for name in box.offered if name != "pods"][:MAX_BARS]
    bars = "".join(_bar(box, name, hues) for name in resources)
    names = "".join(_pod(pod, hues) for pod in box.pods[:MAX_PODS])
    if len(box.pods) > MAX_PODS:
        names += f'<span class="soft">and {len(box.pods) - MAX_PODS:,} more</span>'
    drawings = "".join(box.drawings)
    return f'<div class="node"><b>{escape(box.name)}</b>{bars}{drawings}<div class="pods">{names}</div></div>'


def _bar(box: NodeBox, resource: str, hues: Mapping[str, int]) -> str:
    """Draws the usage of one resource by pod; adjacent pods of the same queue and state are one piece."""
    offered = box.offered[resource]
    pieces: list[list[object]] = []
    taken = 0
    for pod in box.pods:
        amount = pod.amounts.get(resource, 0)
        taken += amount
        if amount and pieces and pieces[-1][:2] == [pod.queue, pod.state]:
            pieces[-1][2] = int(str(pieces[-1][2])) + amount
        elif amount:
            pieces.append([pod.queue, pod.state, amount])
    drawn = "".join(
        f'<i class="{_classes(str(queue), str(state))}" style="{_hue(str(queue), hues)};'
        f'width:{100 * int(str(amount)) / max(offered, taken):.2f}%"></i>'
        for queue, state, amount in pieces
    )
    text = f"{resource} {display(resource, taken)} of {display(resource, offered)}"
    short = escape(resource.rpartition("/")[2])
    return f'<div class="bar" title="{escape(text)}"><span>{short}</span><div class="track">{drawn}</div></div>'


def _pod(pod: PodMark, hues: Mapping[str, int]) -> str:
    asks = ", ".join(f"{name} {display(name, n)}" for name, n in sorted(pod.amounts.items()) if name != "pods")
    title = f"{pod.key}: {asks or 'asks for nothing'}; {STATES[pod.state]}" + (f"; queue {pod.queue}" * bool(pod.queue))
    kind = f"pod {pod.state}" + ("" if pod.queue else " other")
    return f'<span class="{kind}" style="{_hue(pod.queue, hues)}" title="{escape(title)}">{escape(pod.key)}</span>'


def _classes(queue: str, state: str) -> str:
    return f"q {state}" + ("" if queue else " other")


def _hue(queue: str, hues: Mapping[str, int]) -> str:
    return f"--h:{hues.get(queue, 0)}"


def _queues(result: Result, hues: Mapping[str, int]) -> str:
    """Draws the share of each queue per resource, with a mark at its deserved share."""
    state = result.state
    totals = {name: exact_sum(state.nodes.alloc[row]) for name, row in state.axis.rows.items()}
    rows = []
    for name, share in result.summary.queues.items():
        for resource in sorted({*share.allocated, *share.deserved, *share.capability} - {"pods"}):
            total = max(totals.get(resource, 0), 1)
            allocated, deserved, most = (
                part.get(resource) for part in (share.allocated, share.deserved, share.capability)
            )
            fill = f'<i class="q" style="--h:{hues[name]};width:{min(100, 100 * (allocated or 0) / total):.2f}%"></i>'
            mark = (
                ""
                if deserved is None
                else f'<i class="mark" style="left:{min(99.6, 100 * deserved / total):.2f}%"></i>'
            )
            text = f"{display(resource, allocated or 0)} of {display(resource, total)}"
            text += f", deserves {display(resource, deserved)}" if deserved is not None else ""
            text += f", at most {display(resource, most)}" if most is not None else ""
            rows.append(
                f'<div class="queue"><b>{escape(name)}</b><span class="soft">{escape(resource)}</span>'
                f'<div class="track">{fill}{mark}</div><span>{escape(text)}</span></div>'
            )
    return "\n".join(rows) or '<p class="soft">No queue uses resources.</p>'


def _pending(result: Result) -> str:
    by_reason: dict[str, list[str]] = {}
    for pod, reason in sorted(result.pending.items()):
        by_reason.setdefault(reason, []).append(pod)
    rows = []
    for reason, pods in by_reason.items():
        names = escape(", ".join(pods))
        shown = names if len(pods) <= 3 else f"<details><summary>{escape(pods[0])} …</summary>{names}</details>"
        rows.append(f'<tr><td class="n">{len(pods):,}</td><td>{shown}</td><td>{escape(reason)}</td></tr>')
    head = "<tr><th>pods</th><th>which</th><th>why</th></tr>"
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _evictions(result: Result) -> str:
    return table(("pod", "node", "for", "by"), [(e.pod, e.node, e.by, e.rule) for e in result.evictions])


def _placements(result: Result) -> str:
    devices = {pod: result.devices_of(pod) for pod in result.devices}
    head = ("pod", "node", "devices") if devices else ("pod", "node")
    rows = [(pod, node, devices.get(pod, ""))[: len(head)] for pod, node in sorted(result.binds.items())]
    return f"<details{' open' * (len(rows) <= 30)}><summary>{len(rows):,} pods</summary>{table(head, rows)}</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows)
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'
