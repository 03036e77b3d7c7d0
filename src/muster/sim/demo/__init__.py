"""`muster demo`: the designs' own examples, played on the embedded cluster by the real scheduler and controllers.

A chapter is a file that plays one design: it puts manifests (in `manifests/`, one folder a chapter) into a cluster,
runs until nothing changes, and compares the outcome with the design. Nothing that is shown is written
beforehand but the questions and the design's answers; one that does not come out makes the demo fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.sim.demo.group_management import chapter as group_management
from muster.sim.demo.nodegroup import chapter as nodegroup
from muster.sim.demo.nodesets import chapter as nodesets
from muster.sim.demo.resource_strategy_fit import chapter as resource_strategy_fit
from muster.sim.demo.story import Chapter
from muster.sim.demo.topology910 import chapter as topology910

__all__ = ["CHAPTERS", "chapters"]

CHAPTERS: tuple[Callable[[], Chapter], ...] = (
    nodegroup,
    resource_strategy_fit,
    nodesets,
    topology910,
    group_management,
)


def chapters() -> Iterator[Chapter]:
    """The chapters in order, each played when it is its turn."""
    return (chapter() for chapter in CHAPTERS)
