"""Where every question to the simulator begins: an embedded cluster made of the input, and the engine's state of it."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.jobs import Status, Task
from muster.engine.state import Objects, State


def opened(objects: Objects, now: float, scheduler_names: Iterable[str]) -> tuple[EmbeddedCluster, State]:
    """The cluster, whose workloads have made their pods, and its state before the first cycle."""
    cluster = EmbeddedCluster(objects, now)
    state = State(scheduler_names)
    cluster.follow(state)
    return cluster, state


def waits(state: State, task: Task) -> bool:
    """Is the pod one that this scheduler is to find a node for?"""
    return task.status == Status.PENDING and task.pod.spec.scheduler_name in state.ours
