"""The part of the report that draws domain trees: zones in zones, racks in racks, and which group runs where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape

import numpy as np

from muster.engine.core.state import State
from muster.engine.domains.domain_sources import from_hypernodes, from_topology
from muster.engine.domains.domain_tree import Cut, DomainTree
from muster.model.topology import HyperNode, Topology
from muster.sim.picture import group_of
from muster.sim.result import Result

MAX_NODES = 600
HUE_STEP_DEGREES = 137.508  # the golden angle: each hue is far from those before


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
