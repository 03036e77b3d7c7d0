"""The cluster as a report draws it: nodes with their resources and pods, and domain trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

import numpy as np

from muster.engine.core.jobs import Task
from muster.engine.core.podgroups import group_name
from muster.engine.core.state import State
from muster.engine.domains.domain_sources import from_hypernodes, from_topology
from muster.engine.domains.domain_tree import Cut, DomainTree
from muster.model.pod_states import is_terminating
from muster.model.topology import HyperNode, Topology
from muster.plugins.nodegroup.group_classes import LABEL
from muster.sim.result import Result

BEFORE, NEW, LEAVING = "before", "new", "leaving"
MAX_NODES = 600
HUE_STEP_DEGREES = 137.508  # the golden angle: each hue is far from those before


@dataclass(frozen=True, slots=True)
class PodMark:
    """A pod on a node: its queue and group, whether this run placed it, and its share of the node per resource."""

    key: str
    queue: str  # "" if another scheduler's
    state: str  # BEFORE | NEW | LEAVING
    amounts: dict[str, int]


@dataclass(slots=True)
class NodeBox:
    name: str
    group: str  # its node group, "" if it has none
    offered: dict[str, int]
    pods: list[PodMark] = field(default_factory=list)
    drawings: list[str] = field(default_factory=list)  # its devices, as fragments of HTML


def boxes(result: Result) -> list[NodeBox]:
    """Returns the nodes at the end of the run, sorted by group and name."""
    state = result.state
    names = state.axis.names
    found = []
    for i, node in enumerate(state.nodes.objects):
        offered = {name: int(n) for name, n in zip(names, state.nodes.alloc[:, i], strict=True) if n > 0}
        box = NodeBox(node.metadata.name, node.metadata.labels.get(LABEL, ""), offered)
        tasks = sorted(state.nodes.on[i].values(), key=lambda t: (queue_of(t) == "", queue_of(t), t.key))
        box.drawings = [picture.html() for picture in result.pictures.get(box.name, ())]
        box.pods = [PodMark(t.key, queue_of(t), _state(result, t), dict(t.shape.amounts)) for t in tasks]
        found.append(box)
    return sorted(found, key=lambda box: (box.group, box.name))


def queue_of(task: Task | None) -> str:
    """Returns the queue of a pod; "" if another scheduler schedules it."""
    return task.job.queue_name if task is not None and task.job is not None else ""


def group_of(task: Task | None) -> str:
    """Returns the PodGroup that a pod names; "" if it names none."""
    if task is None or task.job is None or (not task.job.native and task.job.name == group_name(task.pod)):
        return ""
    return task.job.name


def _state(result: Result, task: Task) -> str:
    if is_terminating(task.pod):
        return LEAVING
    return NEW if task.key in result.binds else BEFORE


def trees(result: Result) -> str:
    """Draws every topology tree of the cluster as nested boxes; empty if there is none."""
    state = result.state
    drawn = [_tree(state, tree) for tree in _trees(state)]
    return "\n".join(part for part in drawn if part)


def _trees(state: State) -> list[DomainTree]:
    found = [from_topology(o, state.nodes).tree for _, o in _sorted(state, "Topology") if isinstance(o, Topology)]
    hypernodes = {key: o for key, o in _sorted(state, "HyperNode") if isinstance(o, HyperNode)}
    return [*found, from_hypernodes(hypernodes, state.nodes).tree] if hypernodes else found


def _sorted(state: State, kind: str) -> list[tuple[str, object]]:
    return sorted(state.objects[kind].items())


def _tree(state: State, tree: DomainTree) -> str:
    cut = tree.everything
    if not len(cut.members) or len(tree.levels) < 2:
        return ""
    groups = sorted({group_of(t) for node in cut.members.tolist() for t in state.nodes.on[node].values()} - {""})
    hues = {name: round(210 + i * HUE_STEP_DEGREES) % 360 for i, name in enumerate(groups)}
    draw = _domain if len(cut.members) <= MAX_NODES else _summary
    body = "".join(draw(state, cut, 1, segment, hues) for segment in range(len(cut.tiers[1].starts)))
    levels = escape(" › ".join(tree.levels[1:]))
    outside = len(state.nodes) - len(cut.members)
    note = f'<p class="soft">{outside:,} node{"s" * (outside != 1)} outside</p>' if outside else ""
    return f'<h3>{escape(tree.name)} <span class="soft">{levels}</span></h3><div class="tree">{body}</div>{note}'


def _domain(state: State, cut: Cut, level: int, segment: int, hues: Mapping[str, int]) -> str:
    tier = cut.tiers[level]
    if level + 1 < len(cut.tiers):
        below = cut.tiers[level + 1].parent
        inner = "".join(
            _domain(state, cut, level + 1, child, hues) for child in np.flatnonzero(below == segment).tolist()
        )
    else:
        inner = "".join(_node(state, node, hues) for node in cut.nodes(level, segment).tolist())
        inner = f'<div class="row">{inner}</div>'
    if tier.ids[segment] < 0:
        return inner
    groups = _groups(state, cut, level, segment, hues)
    return f'<div class="domain"><div><b>{_name(cut, level, segment)}</b> {groups}</div>{inner}</div>'


def _summary(state: State, cut: Cut, level: int, segment: int, hues: Mapping[str, int]) -> str:
    """Draws a domain without its nodes, if there are too many to draw."""
    count = len(cut.nodes(level, segment))
    groups = _groups(state, cut, level, segment, hues)
    name = _name(cut, level, segment)
    return f'<div class="domain"><b>{name}</b> <span class="soft">{count:,} nodes</span> {groups}</div>'


def _name(cut: Cut, level: int, segment: int) -> str:
    return escape(cut.path(level, segment).rpartition("/")[2]) if cut.tiers[level].ids[segment] >= 0 else "–"


def _groups(state: State, cut: Cut, level: int, segment: int, hues: Mapping[str, int]) -> str:
    """Returns how many pods of each group run in the domain."""
    here = Counter(
        group_of(task) for node in cut.nodes(level, segment).tolist() for task in state.nodes.on[node].values()
    )
    return " ".join(
        f'<span class="pod" style="--h:{hues[name]}">{escape(name)} × {n}</span>'
        for name, n in sorted(here.items())
        if name
    )


def _node(state: State, node: int, hues: Mapping[str, int]) -> str:
    marks = "".join(
        f'<i class="q{"" if group_of(task) else " other"}" style="--h:{hues.get(group_of(task), 0)}" '
        f'title="{escape(task.key)}"></i>'
        for _, task in sorted(state.nodes.on[node].items())
    )
    return f'<span class="leaf"><span>{escape(state.nodes.names[node])}</span>{marks}</span>'
