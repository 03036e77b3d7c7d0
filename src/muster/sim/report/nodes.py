"""The nodes: a box for each with its resources and pods; above `MAX_BOXES` nodes a small square for each.

Below them their devices: Ascend chips in their rings and shared GPUs, with the pods that use them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from muster.engine.core.jobs import Task
from muster.model.markup import escape
from muster.model.quantity import display
from muster.sim.group_names import queue_of
from muster.sim.report.elements import LETTERS, Piece, QueueMarks, amounts, attribute, bar, empty, shown
from muster.sim.report.node_use import STATES, NodeUse, in_order, nodes_of, placed_pods, state_of
from muster.sim.report.squares import squares
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
    trouble = f' <strong class="bad">{escape(node.trouble)}</strong>' if node.trouble else ""
    listed = f'<ul class="pods">{pods}</ul>' if pods else '<p class="soft">no pods</p>'
    title = f'<b class="title">{shown(node.name)}{trouble}</b>'
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
