"""Scale-down without evictions: every pod has its position in the replica order as its pod-deletion-cost.

Kubernetes' ReplicaSet controller removes the pods with the lowest cost first. The last position has the lowest cost, so
that after any scale-down the remaining pods are divided as desired. A cost that somebody else wrote is not changed. A
changed policy may change every position, so costs are written at a low rate: nothing else waits for them.

The replica order defines which node group has the n-th replica of an application. The division is monotone, so replicas
can be numbered: a scale-down that removes the last positions leaves exactly the division of the remaining replicas.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from muster.groupctl.controllers.eviction_order import DELETION_COST, eviction_order
from muster.groupctl.controllers.propagation_status import Distribution
from muster.groupctl.controllers.throttle import TokenBucket
from muster.groups.applications import DOMAIN, Application
from muster.groups.division import quotients
from muster.groups.propagation import WEIGHTS, PropagationRules
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


def replica_order(rules: PropagationRules, replicas: int, uid: str = "") -> list[str]:
    """The groups in the order in which they get their replicas; shorter than `replicas` where maxima are reached."""
    if rules.strategy == WEIGHTS:
        order = []
        waiting = quotients(rules.weights, uid)
        for _ in range(replicas if waiting else 0):
            first = waiting[0]
            order.append(first.name)
            heapq.heapreplace(waiting, first.next())
        return order
    have = dict.fromkeys(rules.ranges, 0)
    order = _filled(have, {name: least for name, (least, _) in rules.ranges.items()}, replicas)
    most = {name: replicas if top is None else top for name, (_, top) in rules.ranges.items()}
    return order + _filled(have, most, replicas - len(order))


def _filled(have: dict[str, int], limit: Mapping[str, int], amount: int) -> list[str]:
    """Gives replicas one by one to the group with the fewest below its limit; ties go to the group named first."""
    rank = {name: i for i, name in enumerate(have)}
    waiting = [(have[name], rank[name], name) for name in have if have[name] < limit[name]]
    heapq.heapify(waiting)
    order: list[str] = []
    while waiting and len(order) < amount:
        count, i, name = heapq.heappop(waiting)
        order.append(name)
        have[name] = count + 1
        if have[name] < limit[name]:
            heapq.heappush(waiting, (have[name], i, name))
    return order


def assign_positions(
    order: Sequence[str], pods: Mapping[str, Sequence[str]], current: Mapping[str, int]
) -> dict[str, int | None]:
    """Pod → its position, from 1; None: its group has no position left for it.

    `pods` lists the pods of each group, those to be removed last first. A pod whose current position belongs to its
    group keeps it: positions are written on pods, and an unchanged position need not be written.
    """
    free: dict[str, list[int]] = {group: [] for group in pods}
    for i, group in enumerate(order):
        if group in free:
            free[group].append(i + 1)
    found: dict[str, int | None] = {}
    for group, names in pods.items():
        left = dict.fromkeys(free[group])
        for name in names:
            if current.get(name) in left:
                found[name] = current[name]
                del left[current[name]]
        open_ = iter(left)
        for name in names:
            if name not in found:
                found[name] = next(open_, None)
    return found
