"""The topology trees as nested boxes, with the gangs that run in each domain: a letter for each gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from muster.engine.core.state import State
from muster.engine.domains.domain_tree import Cut, DomainTree
from muster.sim.group_names import group_of
from muster.sim.report.elements import LETTERS, OTHER_LETTER, attribute, hue, letters, shown
from muster.sim.report.node_use import domain_trees
from muster.sim.result import Result

MAX_NAMED = 100  # nodes; of a larger tree the nodes are squares without names
MAX_DOMAINS = 600
MAX_GROUPS = 6  # in one domain
SQUARE, STEP, SQUARES_PER_ROW = 13, 15, 16
FREE = "·"


def render(result: Result) -> str:
    """Draws every topology tree of the cluster."""
    return "\n".join(Drawing(result.state, tree).html() for tree in domain_trees(result.state))


class Drawing:
    """The drawing of one tree: the gangs on each of its nodes, and a letter and a colour for each gang."""

    def __init__(self, state: State, tree: DomainTree) -> None:
        self.names = state.nodes.names
        self.outside = len(state.nodes) - len(tree.everything.members)
        self.tree = tree
        self.cut: Cut = tree.everything
        self.on: dict[int, Counter[str]] = {}
        self.pods: Counter[str] = Counter()
        for node in self.cut.members.tolist():
            here = Counter(
                f"{task.namespace}/{name}" for task in state.nodes.on[node].values() if (name := group_of(task))
            )
            self.on[node] = here
            self.pods.update(here)
        ranked = sorted(self.pods, key=lambda name: (-self.pods[name], name))
        self.letters: Mapping[str, str] = letters(ranked)
        self.hues = {name: hue(i) for i, name in enumerate(ranked)}
        self.named = len(self.cut.members) <= MAX_NAMED
        self.left = MAX_DOMAINS  # domains that may still be drawn

    def html(self) -> str:
        body = "".join(self._domain(1, segment) for segment in range(len(self.cut.tiers[1].starts)))
        levels = " › ".join(self.tree.levels[1:])
        notes = [f"{self.outside:,} node{'s' * (self.outside != 1)} outside"] if self.outside else []
        notes += [f"only {MAX_DOMAINS} domains are drawn"] if self.left <= 0 else []
        note = f'<p class="soft">{"; ".join(notes)}</p>' if notes else ""
        title = f'<h3>{shown(self.tree.name)} <span class="soft">{shown(levels)}</span></h3>'
        return f'{title}{self._legend()}<div class="tree">{body}</div>{note}'

    def _legend(self) -> str:
        entries = [
            f'<li><b class="letter {self.hues[name]}">{letter}</b> {shown(name)} × {self.pods[name]:,}</li>'
            for name, letter in self.letters.items()
            if letter != OTHER_LETTER
        ]
        if len(self.letters) > len(LETTERS):
            entries.append(f"<li><b>{OTHER_LETTER}</b> {len(self.letters) - len(LETTERS):,} more gangs</li>")
        note = "" if self.named else '<p class="soft">A letter is a node: the gang with the most pods on it.</p>'
        return note + (f'<ul class="legend">{"".join(entries)}</ul>' if entries else "")

    def _domain(self, level: int, segment: int) -> str:
        if self.left <= 0:
            return ""
        tier = self.cut.tiers[level]
        members = self.cut.nodes(level, segment).tolist()
        if level + 1 < len(self.cut.tiers):
            below = np.flatnonzero(self.cut.tiers[level + 1].parent == segment).tolist()
            inner = "".join(self._domain(level + 1, child) for child in below)
        else:
            inner = self._nodes(members)
        if tier.ids[segment] < 0:
            return inner
        self.left -= 1
        path = self.cut.path(level, segment)
        name = shown(path.rpartition("/")[2], 80)
        count = f'<span class="soft">{len(members):,} node{"s" * (len(members) != 1)}</span>'
        if self.named:
            gangs = self._gangs(members)
        else:
            number = len({gang for node in members for gang in self.on[node]})
            gangs = f'<span class="soft">{number:,} gang{"s" * (number != 1)}</span>'
        return f'<div class="domain"{attribute("domain", path)}><div><b>{name}</b> {count} {gangs}</div>{inner}</div>'

    def _gangs(self, members: Iterable[int]) -> str:
        """Returns how many pods of each gang run in the domain."""
        here: Counter[str] = Counter()
        for node in members:
            here.update(self.on[node])
        ranked = sorted(here, key=lambda name: (-here[name], name))
        found = [
            f'<span class="pod {self.hues[name]}"><b>{self.letters[name]}</b> {shown(name, 80)} × {here[name]:,}</span>'
            for name in ranked[:MAX_GROUPS]
        ]
        if len(ranked) > MAX_GROUPS:
            found.append(f'<span class="soft">and {len(ranked) - MAX_GROUPS:,} gangs more</span>')
        return " ".join(found)

    def _nodes(self, members: list[int]) -> str:
        if self.named:
            return f'<div class="row">{"".join(map(self._leaf, members))}</div>'
        return self._squares(members)

    def _leaf(self, node: int) -> str:
        marks = "".join(
            f'<b class="letter {self.hues[name]}">{self.letters[name]}{f"×{n}" if n > 1 else ""}</b>'
            for name, n in sorted(self.on[node].items())
        )
        name = self.names[node]
        return f'<span class="leaf"{attribute("node", name)}>{shown(name, 80)} {marks or FREE}</span>'

    def _squares(self, members: list[int]) -> str:
        """Draws a letter for each node: that of the gang with the most pods there. One text for each gang."""
        places: dict[str, list[int]] = {}
        for i, node in enumerate(members):
            here = self.on[node]
            gang = min(here, key=lambda name: (-here[name], name)) if here else ""
            places.setdefault(gang, []).append(i)
        texts = []
        for gang, at in places.items():
            xs = " ".join(str(i % SQUARES_PER_ROW * STEP + STEP // 2) for i in at)
            ys = " ".join(str(i // SQUARES_PER_ROW * STEP + SQUARE - 2) for i in at)
            texts.append(f'<text class="{self.hues.get(gang, "free")}" x="{xs}" y="{ys}">'
                         f'{self.letters.get(gang, FREE) * len(at)}</text>')  # fmt: skip
        width, height = min(len(members), SQUARES_PER_ROW) * STEP, -(-len(members) // SQUARES_PER_ROW) * STEP
        return f'<svg class="gangs" aria-hidden="true" width="{width}" height="{height}">{"".join(texts)}</svg>'
