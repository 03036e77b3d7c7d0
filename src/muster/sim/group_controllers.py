"""The three controllers of node group management as a part of the embedded cluster."""

from __future__ import annotations

from collections.abc import Callable

from muster.cluster.embedded import EmbeddedCluster, Part
from muster.engine.core.plan import Eviction
from muster.groupctl.controllers.dry_run import DryRunStore, Write
from muster.groupctl.controllers.evictions import EvictionQueue
from muster.groupctl.controllers.nodegroup import NodeGroupController
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.model.core import Pod
from muster.model.custom import custom_kinds
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import key
from muster.sim.simulated_webhook import SimulatedWebhook
from muster.store import Store


class GroupControllers:
    """They begin when the first object of theirs is there: most clusters have none, and should not pay for them.

    Whoever wants to know is told of everything they write. `webhook`: new pods are made in their group's edition.
    """

    def __init__(
        self, cluster: EmbeddedCluster, on_write: Callable[[Write], None] | None = None, *, webhook: bool = False
    ) -> None:
        self._cluster = cluster
        self._webhook = webhook
        self._on_write = on_write
        self._parts: list[Part] = []

    def run(self) -> bool:
        if not self._parts and not self._begin():
            return False
        return bool(sum(part.run() for part in self._parts))  # not any(): each has its turn

    def next_time(self) -> float | None:
        times = [part.next_time() for part in self._parts]
        return min((time for time in times if time is not None), default=None)

    def _begin(self) -> bool:
        if not any(self._cluster.store.of(kind) for kind in (NodeGroup, PropagationPolicy, OverridePolicy)):
            return False
        store: Store = self._cluster.store
        if self._on_write is not None:
            store = DryRunStore(store, self._on_write, carry_out=True)
        # muster's own scheduler follows policies and groups: its pods need no nudge.
        custom = custom_kinds(self._cluster.store.everything())
        evictions = EvictionQueue(store, self._note)
        self._parts = [
            NodeGroupController(store),
            PropagationPolicyController(store, evictions, retry_pending=False, custom=custom),
            OverridePolicyController(
                store, evictions, webhook=lambda: self._webhook, retry_pending=False, custom=custom
            ),
        ]
        if self._webhook:
            self._parts.insert(0, SimulatedWebhook(self._cluster.store, custom))
        return True

    def _note(self, pod: Pod, policy: str, rule: str) -> None:
        self._cluster.evicted.append(Eviction(key(pod), pod.spec.node_name, policy, rule))
