"""The nodes that a required level rules out whatever is free, in words for a pod's reason."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.engine.core.hooks import Bools
from muster.engine.domains.domain_sources import HYPERNODES
from muster.plugins.topology.constraints import Wish


def outside_tree(wish: Wish) -> tuple[Bools, str]:
    """Nodes that are in no domain of the required level."""
    level, tree = wish.required or 0, wish.tree
    apart: Bools = tree.ids[level] < 0
    if tree.name == HYPERNODES:
        return apart, f"node(s) are outside the HyperNodes of tier {tree.levels[level]}"
    return apart, f"node(s) are outside topology {tree.name}"


def outside_home(wish: Wish, part: str, members: Iterable[int]) -> tuple[Bools, str] | None:
    """Nodes that are not in the domains where the sub-group's members are; None without such members."""
    level, tree = wish.required or 0, wish.tree
    homes = sorted({int(tree.ids[level, node]) for node in members} - {-1})
    if not homes:
        return None
    apart: Bools = ~np.isin(tree.ids[level], homes)
    key = "HyperNode" if tree.name == HYPERNODES else tree.levels[level]
    names = ", ".join(tree.paths[level][home] for home in homes)
    return apart, f"node(s) are outside {key} {names}, where sub-group {part} is placed"
