"""Scale-down without evictions: every pod carries its seat as pod-deletion-cost.

Kubernetes' ReplicaSet controller removes the pods of the lowest cost first. The last seat has the lowest, so whatever
number is taken away, the division of the rest is right at once. A cost that somebody else wrote is left alone. A
changed policy may change every seat, so they are written at a gentle rate: nothing else waits for them.
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
# Below every seat there can be, and what Kubernetes still reads as a number.
LOWEST = -1_000_000_000
BURST, PER_SECOND = 500.0, 25.0
_COUNTED = (Deployment, ReplicaSet, ReplicationController)


def deletion_cost_rate() -> TokenBucket:
    """For all applications of a controller."""
    return TokenBucket(BURST, PER_SECOND)


def write_deletion_costs(
    store: Store, distribution: Distribution, application: Application, rate: TokenBucket
) -> tuple[bool, float | None]:
    """Put the seats right on the application's pods; whether anything was written, and when to go on if not all was."""
    if not isinstance(distribution.app, _COUNTED) or distribution.quotas.replicas is None:
        return False, None
    now = store.clock.now()
    ours = {
        group: [pod for pod in reversed(eviction_order(pods, by_ordinal=False)) if _is_ours(pod)]
        for group, pods in distribution.current.items()
    }
    order = replica_order(distribution.rules, distribution.quotas.replicas, application.uid)
    held = {key_of(pod): _held(pod) for pods in ours.values() for pod in pods}
    seats = assign_positions(order, {group: [key_of(pod) for pod in pods] for group, pods in ours.items()}, held)
    wrote = False
    for pod in (*(pod for pods in ours.values() for pod in pods), *filter(_is_ours, distribution.misplaced)):
        seat = seats.get(key_of(pod))
        wanted = {SEAT: str(seat or NONE), DELETION_COST: str(-seat if seat else LOWEST)}
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


def _held(pod: Pod) -> int:
    text = pod.metadata.annotations.get(SEAT, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
