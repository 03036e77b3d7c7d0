"""`muster demo`: the examples of the designs, played on the embedded cluster by the real scheduler and controllers.

A chapter is a function that plays one design: it applies manifests (in `manifests/`, one folder for each chapter) to a
cluster, runs until nothing changes, and compares the outcome with the design. Only the questions and the answers of the
design are written beforehand; if an outcome differs from its answer, the demo fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.sim.demo.chapter import Chapter
from muster.sim.demo.group_management import group_management
from muster.sim.demo.plugin_chapters import nodegroup, nodesets, resource_strategy_fit, topology910

__all__ = ["CHAPTERS", "chapters"]

CHAPTERS: tuple[Callable[[], Chapter], ...] = (
    nodegroup,
    resource_strategy_fit,
    nodesets,
    topology910,
    group_management,
)


def chapters() -> Iterator[Chapter]:
    """Yields the chapters in order; each is played when it is yielded."""
    return (chapter() for chapter in CHAPTERS)
