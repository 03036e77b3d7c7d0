"""The embedded cluster with the controllers of node group management as a part.

The controllers are imported when a cluster has node groups or policies: most have none, and `muster simulate` starts
faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from muster.cluster.embedded import EmbeddedCluster, Part
from muster.cluster.memory import MemoryStore
from muster.engine.core.plan import Eviction
from muster.engine.core.state import Objects, State
from muster.model.core import Pod
from muster.model.custom import CustomApplication, custom_kinds
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import key
from muster.store import Store

if TYPE_CHECKING:
    from muster.groupctl.controllers.dry_run import Write

Webhook = Callable[[MemoryStore, Sequence[type[CustomApplication]]], Part]


class GroupControllers:
    """Runs the controllers once a cluster has node groups or policies: other clusters should not pay for them.

    `on_write` is called with every write. `webhook` makes a model of the webhook, which runs before the controllers.
    """

    def __init__(
        self, cluster: EmbeddedCluster, on_write: Callable[[Write], None] | None = None, webhook: Webhook | None = None
    ) -> None:
        self._cluster = cluster
        self._webhook = webhook
        self._on_write = on_write
        self._parts: list[Part] = []

    def run(self) -> bool:
        if not self._parts and not self._begin():
            return False
        return bool(sum(part.run() for part in self._parts))  # not any(): each controller must run

    def next_time(self) -> float | None:
        times = [part.next_time() for part in self._parts]
        return min((time for time in times if time is not None), default=None)

    def _begin(self) -> bool:
        if not any(self._cluster.store.of(kind) for kind in (NodeGroup, PropagationPolicy, OverridePolicy)):
            return False
        from muster.groupctl.controllers.dry_run import DryRunStore
        from muster.groupctl.controllers.eviction_queue import EvictionQueue
        from muster.groupctl.controllers.nodegroup import NodeGroupController
        from muster.groupctl.controllers.override import OverridePolicyController
        from muster.groupctl.controllers.propagation import PropagationPolicyController

        store: Store = self._cluster.store
        if self._on_write is not None:
            store = DryRunStore(store, self._on_write, carry_out=True)
        # muster's own scheduler watches policies and groups: no label change is needed for a retry.
        custom = custom_kinds(self._cluster.store.everything())
        evictions = EvictionQueue(store, self._note)
        self._parts = [
            NodeGroupController(store),
            PropagationPolicyController(store, evictions, retry_pending=False, custom=custom),
            OverridePolicyController(
                store, evictions, webhook=lambda: self._webhook is not None, retry_pending=False, custom=custom
            ),
        ]
        if self._webhook is not None:
            self._parts.insert(0, self._webhook(self._cluster.store, custom))
        return True

    def _note(self, pod: Pod, policy: str, rule: str) -> None:
        self._cluster.evicted.append(Eviction(key(pod), pod.spec.node_name, policy, rule))


def open_cluster(
    objects: Objects, now: float, scheduler_names: Iterable[str], *, all_pods: bool = False
) -> tuple[EmbeddedCluster, State]:
    """Returns the cluster and its state before the first cycle.

    The workload controllers have created their pods, and applications are bound to their policies. With `all_pods`
    there are also the pods that appear only in later cycles.
    """
    cluster = EmbeddedCluster(objects, now, all_pods=all_pods)
    cluster.join(GroupControllers(cluster))
    state = State(scheduler_names)
    cluster.follow(state)
    return cluster, state
