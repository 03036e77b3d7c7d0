"""The nodes: a box for each with its resources and pods; above `MAX_BOXES` nodes a small square for each.

Squares are grouped by rack or node group, with a table of all nodes. The height of a square's filling is the share of
the node's most used resource. Signs, not colours, mark nodes that take no pods and nodes that this run changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from muster.engine.core.jobs import Task
from muster.model.markup import escape
from muster.model.quantity import display
from muster.sim.group_names import queue_of
from muster.sim.report.elements import LETTERS, Piece, QueueMarks, amounts, attribute, bar, empty, html_table, shown
from muster.sim.report.node_use import STATES, NodeUse, in_order, nodes_of, placed_pods, state_of
from muster.sim.result import Result

MAX_BOXES = 50
MAX_PODS = 40  # names in one box
MAX_BARS = 6


def render(result: Result, *, names: bool = True) -> str:
    """Draws the nodes by rack or node group. `names`: below the squares there is a table of all nodes."""
    nodes = nodes_of(result)
    if not nodes:
        return empty("There are no nodes.")
    if len(nodes) > MAX_BOXES:
        return squares(nodes, names)
    marks, placed = QueueMarks(result), placed_pods(result)
    parts = [_legend(marks)]
    for group, members in by_group(nodes).items():
        if group or len({node.group for node in nodes}) > 1:
            parts.append(f"<h3>{shown(group or 'no group')}</h3>")
        boxes = "".join(_box(result, node, marks, placed) for node in members)
        parts.append(f'<div class="nodes">{boxes}</div>')
    return "\n".join(parts)


def by_group(nodes: Sequence[NodeUse]) -> dict[str, list[NodeUse]]:
    found: dict[str, list[NodeUse]] = {}
    for node in nodes:
        found.setdefault(node.group, []).append(node)
    return found


def _legend(marks: QueueMarks) -> str:
    """Returns the letters of the queues and the signs of a pod's state."""
    queues = "".join(f"<li>{marks.letter_box(name)} queue {shown(name)}</li>" for name in marks.queues[: len(LETTERS)])
    states = "".join(
        f'<li><svg class="track sample" aria-hidden="true"><rect class="q h0 {kind}" width="100%" height="100%"/>'
        f"</svg> {f'<b>{sign}</b> ' if sign else ''}{text}</li>"
        for kind, (sign, text) in STATES.items()
    )
    return f'<ul class="legend">{queues}<li>{marks.letter_box("")} another scheduler</li>{states}</ul>'


def _box(result: Result, node: NodeUse, marks: QueueMarks, placed: Collection[str]) -> str:
    tasks = in_order(node.pods)
    resources = [name for name in node.offered if name != "pods"][:MAX_BARS]
    bars = "".join(_bar(node, name, tasks, marks, placed) for name in resources)
    pods = "".join(_pod(result, task, marks, placed) for task in tasks[:MAX_PODS])
    if len(tasks) > MAX_PODS:
        pods += f'<li class="soft">and {len(tasks) - MAX_PODS:,} more</li>'
    problem = f' <strong class="bad">{escape(node.problem)}</strong>' if node.problem else ""
    listed = f'<ul class="pods">{pods}</ul>' if pods else '<p class="soft">no pods</p>'
    title = f'<b class="title">{shown(node.name)}{problem}</b>'
    return f'<div class="node"{attribute("node", node.name)}>{title}{bars}{listed}</div>'


def _bar(
    node: NodeUse, resource: str, tasks: Sequence[Task], marks: QueueMarks, placed: Collection[str]
) -> str:
    """Draws the usage of one resource by pod; adjacent pods of the same queue and state are one piece."""
    pieces: list[tuple[str, str, int]] = []
    for task in tasks:
        amount = task.shape.amounts.get(resource, 0)
        queue, state = queue_of(task), state_of(task, placed)
        if amount and pieces and pieces[-1][:2] == (queue, state):
            amount += pieces.pop()[2]
        if amount:
            pieces.append((queue, state, amount))
    offered, taken = node.offered[resource], sum(amount for _, _, amount in pieces)
    whole = max(offered, taken)
    drawn = bar(Piece(n / whole, f"q {marks.kind(queue)} {state}", marks.letter(queue)) for queue, state, n in pieces)
    text = f"{display(resource, taken)} of {display(resource, offered)}"
    return f'<div class="bar"><span>{shown(resource)}</span>{drawn}<span class="n">{escape(text)}</span></div>'


def _pod(result: Result, task: Task, marks: QueueMarks, placed: Collection[str]) -> str:
    queue, state = queue_of(task), state_of(task, placed)
    sign, text = STATES[state]
    request = amounts(task.shape.amounts) or "no request"
    devices = result.devices_of(task.key)
    request += f"; devices {devices}" if devices else ""
    mark = f' <b title="{text}">{sign}</b>' if sign else ""
    return (
        f'<li class="pod {marks.kind(queue)} {state}"{attribute("pod", task.key)}><b>{marks.letter(queue)}</b>{mark} '
        f'{shown(task.key)} <span class="soft">{shown(request)}</span></li>'
    )


MAX_DRAWN = 32  # nodes
MAX_TEXTS = 500  # further nodes, as text


def devices(result: Result) -> str:
    """Draws the devices of the first nodes, those with new pods first; of many nodes the others are shown as text."""
    if not result.pictures:
        return ""
    changed = set(result.binds.values())
    nodes = sorted(result.pictures, key=lambda name: (name not in changed, name))
    drawn = "".join(
        f'<div class="devices-of"{attribute("node", name)}>{"".join(p.html() for p in result.pictures[name])}</div>'
        for name in nodes[:MAX_DRAWN]
    )
    others = nodes[MAX_DRAWN : MAX_DRAWN + MAX_TEXTS]
    texts = "\n\n".join(escape(picture.text()) for name in others for picture in result.pictures[name])
    left = len(nodes) - MAX_DRAWN - len(others)
    more = f'<p class="soft">and {left:,} nodes more</p>' if left > 0 else ""
    folded = (
        f'<details><summary>{len(others):,} further nodes as text</summary><pre tabindex="0">{texts}</pre>{more}'
        "</details>"
        if others
        else ""
    )
    return f'<p class="soft">{len(nodes):,} nodes with devices.</p><div class="devices">{drawn}</div>{folded}'


SIZE, STEP = 10, 12  # pixels of a square, and from one to the next
SQUARES_PER_ROW = 16  # of a group
MAX_SQUARES_PER_ROW = 64
MAX_GROUPS = 400  # with more groups all nodes are drawn together
FULL_CAPTIONS = 12  # groups; of more groups each caption is short, and the numbers are in a table
MAX_RESOURCES = 4
MAX_ROWS = 5000


def squares(nodes: Sequence[NodeUse], names: bool) -> str:
    """Draws the nodes, sorted by group. `names`: with a table of all nodes."""
    groups = [(name, list(members)) for name, members in groupby(nodes, key=lambda node: node.group)]
    if len(groups) > MAX_GROUPS:
        groups = [("all nodes, by group", list(nodes))]
    short = len(groups) > FULL_CAPTIONS
    drawn = "".join(_group(name, members, short) for name, members in groups)
    tables = (_groups_table(groups) if short else "") + (_table_of_nodes(nodes) if names else "")
    return f'{_square_legend(nodes)}<div class="racks">{drawn}</div>{tables}'


def _square_legend(nodes: Sequence[NodeUse]) -> str:
    samples = (
        (0.0, "", False, "empty"),
        (0.5, "", False, "half of the most used resource"),
        (1.0, "", False, "full"),
        (0.25, "", True, "has a pod that this run placed"),
        (0.0, "cordoned", False, "takes no pods: not ready or cordoned"),
    )
    entries = "".join(
        f'<li><svg class="squares" aria-hidden="true" width="{SIZE}" height="{SIZE}">{_outline(1, 1)}'
        f"{_square(0, 0, share, bool(problem), placed)}</svg> {text}</li>"
        for share, problem, placed, text in samples
    )
    return f'<p>{escape(totals(nodes))}</p><ul class="legend">{entries}</ul>'


def totals(nodes: Iterable[NodeUse]) -> str:
    """Returns the number of nodes, and of each resource how much is in use: `3 nodes: cpu 88 of 96 (92 %)`."""
    found = list(nodes)
    offered: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for node in found:
        for name, most in node.offered.items():
            offered[name] += most
            used[name] += node.used[name]
    chosen = [name for name in offered if name != "pods"][:MAX_RESOURCES]
    parts = [
        f"{name} {display(name, used[name])} of {display(name, offered[name])} ({used[name] / offered[name]:.0%})"
        for name in chosen
    ]
    stopped = sum(bool(node.problem) for node in found)
    parts += [f"{stopped:,} take no pods"] if stopped else []
    return f"{len(found):,} node{'s' * (len(found) != 1)}: " + (", ".join(parts) or "no resources")


def _group(name: str, nodes: Sequence[NodeUse], short: bool) -> str:
    across = min(max(SQUARES_PER_ROW, math.isqrt(4 * len(nodes))), MAX_SQUARES_PER_ROW, max(len(nodes), 1))
    down = -(-len(nodes) // across)
    cells = "".join(
        _square(
            i % across * STEP, i // across * STEP, node.share, bool(node.problem), node.placed > 0,
            attribute("node", node.name),
        )
        for i, node in enumerate(nodes)
    )  # fmt: skip
    width, height = across * STEP - STEP + SIZE, down * STEP - STEP + SIZE
    mean = sum(node.share for node in nodes) / len(nodes)
    text = f"{len(nodes):,} nodes, {mean:.0%} used" if short else totals(nodes)
    return (
        f'<figure class="rack"><figcaption><b>{shown(name or "no group", 80)}</b> {escape(text)}</figcaption>'
        f'<svg class="squares" role="img" aria-label="{escape(text)}" width="{width}" height="{height}">'
        f"{_outline(len(nodes), across)}{cells}</svg></figure>"
    )


def _outline(count: int, across: int) -> str:
    """Draws the borders of all squares as one path."""
    side = SIZE - 1
    path = "".join(f"M{i % across * STEP}.5 {i // across * STEP}.5h{side}v{side}h-{side}z" for i in range(count))
    return f'<path class="outline" d="{path}"/>'


def _square(x: int, y: int, share: float, stopped: bool, placed: bool, data: str = "") -> str:
    """Draws the filling and the signs of a square. It has an element even if it is empty, for scripts."""
    tall = min(round(SIZE * share) or (1 if share > 0 else 0), SIZE)
    signs = f'<path class="cross" d="M{x + 1} {y + 1}l8 8m0-8l-8 8"/>' if stopped else ""
    signs += f'<path class="dot" d="M{x + 6} {y}h4v4z"/>' if placed else ""
    return f'<rect x="{x}" y="{y + SIZE - tall}" height="{tall}"{data}/>{signs}'


def _groups_table(groups: Sequence[tuple[str, list[NodeUse]]]) -> str:
    rows = (f"<td>{shown(name or 'no group', 80)}</td><td>{escape(totals(members))}</td>" for name, members in groups)
    table = html_table(("group", "in use"), rows, "Groups of nodes: in use of allocatable", "dense")
    return f"<details><summary>Table of {len(groups):,} groups</summary>{table}</details>"


def _table_of_nodes(nodes: Sequence[NodeUse]) -> str:
    resources = list(dict.fromkeys(n for node in nodes for n in node.offered if n != "pods"))[:MAX_RESOURCES]
    rows = (
        f"<td>{shown(node.name, 80)}</td><td>{shown(node.group, 80)}</td>"
        + "".join(f"<td>{_use(node, name)}</td>" for name in resources)
        + f"<td>{len(node.pods)}</td><td>{node.placed or ''}</td><td>{node.problem}</td>"
        for node in nodes[:MAX_ROWS]
    )
    head = ("node", "group", *resources, "pods", "placed", "state")
    more = f'<p class="soft">and {len(nodes) - MAX_ROWS:,} nodes more</p>' if len(nodes) > MAX_ROWS else ""
    return (
        f"<details><summary>Table of {len(nodes):,} nodes</summary>"
        f"{html_table(head, rows, 'Nodes: in use of allocatable', 'dense')}{more}</details>"
    )


def _use(node: NodeUse, name: str) -> str:
    if name not in node.offered:
        return "–"
    return escape(f"{display(name, node.used[name])}/{display(name, node.offered[name])}")
