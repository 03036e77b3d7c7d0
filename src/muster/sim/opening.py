"""Where every question to the simulator begins: an embedded cluster made of the input, and the engine's state of it."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.jobs import Status, Task
from muster.engine.core.state import Objects, State
from muster.sim.group_controllers import GroupControllers


def opened(objects: Objects, now: float, scheduler_names: Iterable[str]) -> tuple[EmbeddedCluster, State]:
    """The cluster, whose workloads have made their pods and are bound to policies, and its state before any cycle."""
    cluster = EmbeddedCluster(objects, now)
    cluster.join(GroupControllers(cluster))
    state = State(scheduler_names)
    cluster.follow(state)
    return cluster, state


def waits(state: State, task: Task) -> bool:
    """Is the pod one that this scheduler is to find a node for?"""
    return task.status == Status.PENDING and task.pod.spec.scheduler_name in state.ours
