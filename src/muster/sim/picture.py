"""The cluster as a report draws it: nodes with their resources, and the pods that use them."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.engine.core.jobs import Task
from muster.engine.core.podgroups import group_name
from muster.model.pod_states import is_terminating
from muster.plugins.nodegroup.group_classes import LABEL
from muster.sim.result import Result

BEFORE, NEW, LEAVING = "before", "new", "leaving"


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
    if task is None or task.job is None or task.job.name == group_name(task.pod):
        return ""
    return task.job.name


def _state(result: Result, task: Task) -> str:
    if is_terminating(task.pod):
        return LEAVING
    return NEW if task.key in result.binds else BEFORE
