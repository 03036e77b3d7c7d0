"""Scale-down without evictions: every pod has its position in the replica order as its pod-deletion-cost.

Kubernetes' ReplicaSet controller removes the pods with the lowest cost first. The last position has the lowest cost, so
that after any scale-down the remaining pods are divided as desired. A cost that somebody else wrote is not changed. A
changed policy may change every position, so costs are written at a low rate: nothing else waits for them.
"""

from __future__ import annotations

from muster.groupctl.controllers.eviction_order import DELETION_COST, eviction_order
from muster.groupctl.controllers.propagation_status import Distribution
from muster.groupctl.controllers.throttle import TokenBucket
from muster.groups.applications import Application
from muster.groups.binding import DOMAIN
from muster.groups.replica_order import assign_positions, replica_order
from muster.model.batch import Deployment, ReplicaSet, ReplicationController
from muster.model.core import Pod
from muster.model.meta import key as key_of
from muster.store import NotFound, Store

SEAT = f"{DOMAIN}/seat"
NONE = "none"
# Below the cost of every position, and still a number for Kubernetes.
LOWEST_COST = -1_000_000_000
WRITE_BURST, WRITES_PER_SECOND = 500.0, 25.0
_COUNTED = (Deployment, ReplicaSet, ReplicationController)


def deletion_cost_rate() -> TokenBucket:
    """The rate of writes for all applications of a controller."""
    return TokenBucket(WRITE_BURST, WRITES_PER_SECOND)


def write_deletion_costs(
    store: Store, distribution: Distribution, application: Application, rate: TokenBucket
) -> tuple[bool, float | None]:
    """Writes the deletion costs of the application's pods; whether it wrote, and when to continue if any are left."""
    if not isinstance(distribution.app, _COUNTED) or distribution.quotas.replicas is None:
        return False, None
    now = store.clock.now()
    ours = {
        group: [pod for pod in reversed(eviction_order(pods, by_ordinal=False)) if _is_ours(pod)]
        for group, pods in distribution.current.items()
    }
    order = replica_order(distribution.rules, distribution.quotas.replicas, application.uid)
    current = {key_of(pod): _position(pod) for pods in ours.values() for pod in pods}
    positions = assign_positions(order, {group: [key_of(pod) for pod in pods] for group, pods in ours.items()}, current)
    wrote = False
    for pod in (*(pod for pods in ours.values() for pod in pods), *filter(_is_ours, distribution.misplaced)):
        position = positions.get(key_of(pod))
        wanted = {SEAT: str(position or NONE), DELETION_COST: str(-position if position else LOWEST_COST)}
        if any(pod.metadata.annotations.get(name) != value for name, value in wanted.items()):
            if rate.ready(now) > now:
                return wrote, now + 1.0
            try:
                store.patch(Pod, key_of(pod), {"metadata": {"annotations": wanted}})
                rate.take()
                wrote = True
            except NotFound:
                continue
    return wrote, None


def _is_ours(pod: Pod) -> bool:
    notes = pod.metadata.annotations
    return DELETION_COST not in notes or SEAT in notes


def _position(pod: Pod) -> int:
    text = pod.metadata.annotations.get(SEAT, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
