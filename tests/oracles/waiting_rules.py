"""Could a pod that a plan leaves without a node have had one? A proof for each, from the capacity at the end.

A pod of a group that runs, or without a group, fits no node beside what is there. Of a group below its minimum fewer
pods fit than it lacks, on the nodes of every domain that it may use. If the configuration evicts pods, this holds as
well with everybody gone whom the pod may evict.

It is a proof for plain workloads only: a pod may wait because of its queue's quota, its volumes or rules about other
pods. Such a pod is a failure here, so that nothing is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from muster.config.types import Config
from muster.engine.core.plan import Plan
from muster.model.meta import Object
from muster.model.requests import amounts
from oracles.group_rules import domain_keys
from oracles.plan_end import CRITICAL, End, group_of, is_ready, minimum_of, priority_of, queue_of
from oracles.pod_rules import affinity_terms, anti_affinity_terms, check_node, hard_constraints, host_ports

Amounts = dict[str, int]
PREEMPTABLE = "volcano.sh/preemptable"


@dataclass(frozen=True)
class Waiting:
    """Pods of one group that wait (of a pod without a group that pod), and how many of them it lacks."""

    pods: tuple[str, ...]
    lacks: int
    label: str  # they must be in one domain of it


def check_waiting(objects: Iterable[Object], config: Config, plan: Plan) -> int:
    """Returns the number of pods that fit nowhere; those that wait for a gate or their group are not asked about."""
    end = End.of(objects, plan)
    count = 0
    seen: dict[object, None] = {}
    for one in _waiting(end, plan):
        count += len(one.pods)
        alike = (_text(end, one.pods[0]), one.lacks, one.label, _rank(end, one.pods[0]))
        if alike not in seen:  # equal pods are asked about once
            seen[alike] = None
            _prove(end, plan, config, one)
    return count


def _prove(end: End, plan: Plan, config: Config, one: Waiting) -> None:
    for name in one.pods:
        pod = end.pods[name]
        plain = not (affinity_terms(pod) or anti_affinity_terms(pod) or hard_constraints(pod) or pod.spec.volumes)
        assert plain, f"{name} waits, and only plain pods can be proved to fit nowhere"
        assert not host_ports(pod), f"{name} waits, and only plain pods can be proved to fit nowhere"
        assert _text(end, name) == _text(end, one.pods[0]), f"{name} differs from the other waiting pods of its group"
    claimer = one.pods[0]
    free = {node: dict(amounts(made.status.allocatable)) for node, made in end.nodes.items()}
    for node, held in end.held(end.where).items():
        for name, amount in held.items():
            if node in free:
                free[node][name] = free[node].get(name, 0) - amount
    _prove_with(end, one, free, "")
    victims = [name for name in end.where if name in end.there and _may_evict(end, config, claimer, name)]
    if victims:
        for name in victims:
            for resource, amount in end.requests[name].items():
                free[end.where[name]][resource] += amount
        _prove_with(end, one, free, ", after evictions")


def _prove_with(end: End, one: Waiting, free: Mapping[str, Amounts], how: str) -> None:
    """The upper bound of pods that fit, by domain."""
    claimer = one.pods[0]
    room: dict[str | None, int] = {}
    for node, left in free.items():
        domain = end.nodes[node].metadata.labels.get(one.label) if one.label else ""
        if domain is not None and _is_allowed(end, claimer, node):
            room[domain] = room.get(domain, 0) + _times(end.requests[claimer], left)
    most = max(room.values(), default=0)
    assert most < one.lacks, f"{claimer} waits, {one.lacks} such pods are missing and {most} fit{how}"


def _times(request: Mapping[str, int], free: Amounts) -> int:
    """How many such pods fit; a request counts `pods`, so it is never empty."""
    return max(min(free.get(name, 0) // amount for name, amount in request.items() if amount), 0)


def _is_allowed(end: End, name: str, node: str) -> bool:
    try:
        check_node(name, end.pods[name], end.nodes[node])
    except AssertionError:
        return False
    return True


def _waiting(end: End, plan: Plan) -> Iterator[Waiting]:
    labels = domain_keys(end)
    by_group: dict[str, list[str]] = {}
    for name, pod in end.pods.items():
        waits = not pod.spec.node_name and pod.status.phase == "Pending" and pod.metadata.deletion_timestamp is None
        if not waits or pod.spec.scheduling_gates or name in plan.binds or name in plan.pipelined:
            continue
        group = group_of(name, pod)
        if group and group not in end.groups and group not in end.native_groups:
            continue  # it waits for its group
        if group:
            by_group.setdefault(group, []).append(name)
        else:
            yield Waiting((name,), 1, "")
    for group, pods in by_group.items():
        have = sum(pod in end.where or is_ready(end.pods[pod]) for pod in end.members[group])
        yield Waiting(tuple(pods), max(minimum_of(end, group) - have, 1), labels.get(group, ""))


def _may_evict(end: End, config: Config, claimer: str, victim: str) -> bool:
    """Whether it is not forbidden by the rules; quotas and the minimum of the victim's group may forbid it yet."""
    pod = end.pods[victim]
    protected = pod.metadata.annotations.get(PREEMPTABLE, "true") != "true"
    critical = config.plugin("conformance") is not None and pod.spec.priority_class_name in CRITICAL
    if protected or critical or end.pods[claimer].spec.preemption_policy == "Never":
        return False
    if queue_of(end, claimer) == queue_of(end, victim):
        return "preempt" in config.actions and priority_of(end, victim) < priority_of(end, claimer)
    queue = end.queues.get(queue_of(end, victim))
    return "reclaim" in config.actions and (queue is None or queue.spec.reclaimable is not False)


def _rank(end: End, name: str) -> tuple[str, int, str]:
    return queue_of(end, name), priority_of(end, name), end.pods[name].spec.preemption_policy or ""


def _text(end: End, name: str) -> bytes:
    """What decides on which nodes a plain pod fits."""
    spec = end.pods[name].spec
    chosen = spec.affinity.node_affinity if spec.affinity is not None else None
    return msgspec.json.encode((sorted(end.requests[name].items()), spec.node_selector, spec.tolerations, chosen))
