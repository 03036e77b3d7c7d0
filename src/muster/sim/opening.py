"""Creates the embedded cluster from the input, and the engine's state of it."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.state import Objects, State
from muster.sim.group_controllers import GroupControllers


def open_cluster(objects: Objects, now: float, scheduler_names: Iterable[str]) -> tuple[EmbeddedCluster, State]:
    """Returns the cluster and its state before the first cycle.

    The workload controllers have created their pods, and applications are bound to their policies.
    """
    cluster = EmbeddedCluster(objects, now)
    cluster.join(GroupControllers(cluster))
    state = State(scheduler_names)
    cluster.follow(state)
    return cluster, state
