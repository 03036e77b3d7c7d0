"""The devices of the nodes: Ascend chips in their rings and shared GPUs, with the pods that hold them."""

from __future__ import annotations

from muster.model.markup import escape
from muster.sim.report.elements import attribute
from muster.sim.result import Result

MAX_DRAWN = 32  # nodes
MAX_TEXTS = 500  # further nodes, as text


def render(result: Result) -> str:
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
