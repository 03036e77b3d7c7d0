"""Is a plan allowed? Looked at from the end, pod by pod and node by node, whatever way it was found.

The checker knows the objects and the plan, not the engine: what a node holds at the end fits it, every bound pod may be
where it is, a group has its minimum or nothing, and nobody was evicted who may not be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from muster.config.types import Config
from muster.engine.core.plan import Plan
from muster.model.core import Node, Pod, PriorityClass
from muster.model.meta import Object, key
from muster.model.requests import amounts, requests
from muster.model.scheduling import PodGroup, Queue
from oracles.pod_rules import Placements, check_pod_rules

GROUP = "scheduling.k8s.io/group-name"
_CRITICAL = ("system-cluster-critical", "system-node-critical")


@dataclass
class End:
    """The cluster once the plan is carried out and what is terminating has left."""

    nodes: dict[str, Node]
    pods: dict[str, Pod]
    groups: dict[str, PodGroup]
    queues: dict[str, Queue]
    classes: dict[str, int]
    there: dict[str, str]  # pod → its node before the plan
    where: dict[str, str]  # pod → its node at the end; evicted and terminating pods are gone, pipelined ones have come
    holding: dict[str, str]  # pod → its node right after the bindings: terminating pods are still there

    @classmethod
    def of(cls, objects: Iterable[Object], plan: Plan) -> End:
        every = list(objects)
        pods = {key(o): o for o in every if isinstance(o, Pod)}
        there = {k: p.spec.node_name for k, p in pods.items() if p.spec.node_name and p.status.phase != "Succeeded"}
        gone = {e.pod for e in plan.evictions} | {k for k, p in pods.items() if p.metadata.deletion_timestamp}
        staying = {k: n for k, n in there.items() if k not in gone}
        return cls(
            {key(o): o for o in every if isinstance(o, Node)},
            pods,
            {key(o): o for o in every if isinstance(o, PodGroup)},
            {key(o): o for o in every if isinstance(o, Queue)},
            {key(o): o.value for o in every if isinstance(o, PriorityClass)},
            there,
            {**staying, **plan.pipelined, **plan.binds},
            {**there, **plan.binds},
        )

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """Group → its pods."""
        found: dict[str, list[str]] = {}
        for name, pod in self.pods.items():
            found.setdefault(_group(name, pod), []).append(name)
        found.pop("", None)
        return found


def check(objects: Iterable[Object], config: Config, plan: Plan) -> set[str]:
    """Returns the bound pods of which a rule could not be judged from the end."""
    every = list(objects)
    end = End.of(every, plan)
    assert not plan.binds.keys() & plan.pipelined.keys()
    assert len({e.pod for e in plan.evictions}) == len(plan.evictions)
    for pod in (*plan.binds, *plan.pipelined):
        assert not end.pods[pod].spec.node_name, "placed twice"
        assert not end.pods[pod].spec.scheduling_gates, "placed behind its gate"
    check_room(end, plan, config)
    check_gangs(end, plan, config)
    check_evictions(end, plan, config)
    check_reasons(end, plan)
    if config.plugin("predicates") is None:
        return set()
    gone = {e.pod for e in plan.evictions}
    return check_pod_rules(Placements(end.nodes, end.pods, end.there, plan.binds, plan.pipelined, gone))


# --- capacity


def _held(end: End, where: Mapping[str, str]) -> dict[str, Counter[str]]:
    """Node → what the pods on it request."""
    found: dict[str, Counter[str]] = {}
    for pod, at in where.items():
        found.setdefault(at, Counter()).update(requests(end.pods[pod].spec))
    return found


def check_room(end: End, plan: Plan, config: Config) -> None:
    """Now, with what is terminating still there; and later, with everything that was promised capacity."""
    for where, newcomers in ((end.holding, plan.binds), (end.where, {**plan.binds, **plan.pipelined})):
        held = _held(end, where)
        asked: dict[str, set[str]] = {}  # node → the resources of which its new pods request some
        for pod, node in newcomers.items():
            asked.setdefault(node, set()).update(n for n, v in requests(end.pods[pod].spec).items() if v)
        for node, names in sorted(asked.items()):
            offered = amounts(end.nodes[node].status.allocatable)
            if config.plugin("predicates") is None:
                names.discard("pods")  # backfill asks filters only, and nobody else counts pods
            for name in names:
                had = held[node][name]
                assert had <= offered.get(name, 0), f"{node} holds {had} {name} of {offered.get(name, 0)}"


# --- groups


def check_gangs(end: End, plan: Plan, config: Config) -> None:
    """All or nothing: a group that got nodes runs with its minimum."""
    if config.plugin("gang") is None:
        return
    for name, group in end.groups.items():
        members = end.members.get(name, [])
        if not any(k in plan.binds for k in members):
            continue
        runs = [k for k in members if k in plan.binds or _ready(end.pods[k])]
        # pods that request nothing count while they wait for backfill
        later = [k for k in members if k not in runs and not end.pods[k].spec.node_name and _empty(end.pods[k])]
        assert len(runs) + len(later) >= group.spec.min_member, f"{name}: {len(runs)} of {group.spec.min_member}"
        roles = group.spec.min_task_member
        if group.spec.min_member >= sum(roles.values()):
            for role, least in roles.items():
                assert sum(_role(end.pods[k]) == role for k in (*runs, *later)) >= least, f"{name}: role {role}"


def _group(name: str, pod: Pod) -> str:
    group = pod.metadata.annotations.get(GROUP, "")
    return f"{name.partition('/')[0]}/{group}" if group else ""


def _ready(pod: Pod) -> bool:
    gone = pod.metadata.deletion_timestamp is not None
    return pod.status.phase == "Succeeded" or (bool(pod.spec.node_name) and not gone)


def _empty(pod: Pod) -> bool:
    return not any(v for name, v in requests(pod.spec).items() if name != "pods")


def _role(pod: Pod) -> str:
    return pod.metadata.annotations.get("volcano.sh/task-spec", "")


# --- evictions


def check_evictions(end: End, plan: Plan, config: Config) -> None:
    """Only running pods that may go, for a pod that is promised their capacity, by the rules of the action."""
    for eviction in plan.evictions:
        victim, claimer = end.pods[eviction.pod], end.pods[eviction.by]
        assert victim.spec.node_name == eviction.node
        assert victim.metadata.deletion_timestamp is None
        assert victim.metadata.annotations.get("volcano.sh/preemptable", "true") == "true"
        assert claimer.spec.preemption_policy != "Never"
        if not (_empty(claimer) and "backfill" in config.actions):  # Volcano: backfill takes such a promise back
            assert eviction.by in plan.pipelined, "evicted for nobody"
        mine, other = (_queue(end, k) for k in (eviction.by, eviction.pod))
        if eviction.rule == "reclaim":
            assert victim.status.phase == "Running"
            assert mine != other
            assert end.queues[other].spec.reclaimable is not False
        else:
            assert mine == other
    (_check_by_volcano if config.compatibility == "volcano" else _check_by_muster)(end, plan, config)


def _check_by_muster(end: End, plan: Plan, config: Config) -> None:
    """Protections hold in every tier; a job gives up its surplus or everything that it has on nodes."""
    gone = {e.pod for e in plan.evictions}
    for eviction in plan.evictions:
        victim = end.pods[eviction.pod]
        if config.plugin("conformance") is not None:
            assert victim.spec.priority_class_name not in _CRITICAL
        if eviction.rule == "preempt":
            assert _priority(end, eviction.pod) < _priority(end, eviction.by)
            jobs = [_group(k, end.pods[k]) or k for k in (eviction.pod, eviction.by)]
            assert jobs[0] == jobs[1] or _job_priority(end, eviction.pod) < _job_priority(end, eviction.by)
    for name in {_group(k, end.pods[k]) for k in gone} & end.groups.keys():
        group = end.groups[name].spec
        left = [k for k in end.members[name] if _ready(end.pods[k]) and k not in gone]
        if all(end.pods[k].status.phase == "Succeeded" for k in left):
            continue  # the whole job
        assert len(left) >= group.min_member, f"{name} was taken below its minimum"
        if group.min_member >= sum(group.min_task_member.values()):
            for role in {_role(end.pods[k]) for k in gone if _group(k, end.pods[k]) == name}:
                assert sum(_role(end.pods[k]) == role for k in left) >= group.min_task_member.get(role, 0)


def _job_priority(end: End, name: str) -> int:
    """The class of the group; of a group without one the highest priority of its pods."""
    group = end.groups.get(_group(name, end.pods[name]))
    if group is None:
        return _priority(end, name)
    if group.spec.priority_class_name in end.classes:
        return end.classes[group.spec.priority_class_name]
    return max(_priority(end, k) for k in end.members[key(group)])


def _check_by_volcano(end: End, plan: Plan, config: Config) -> None:
    gone = {e.pod for e in plan.evictions}
    for eviction in plan.evictions:
        victim = end.pods[eviction.pod]
        if eviction.by in plan.pipelined:
            assert plan.pipelined[eviction.by] == eviction.node or _divided(end, eviction.by)
        by = _last_word(config, eviction.rule)
        if by == "conformance":
            assert victim.spec.priority_class_name not in _CRITICAL
        if by == "priority":
            assert _rank(end, eviction.pod, eviction.by) < (0, 0)
        if by == "gang" and (name := _group(eviction.pod, victim)):
            left = [k for k in end.members[name] if _ready(end.pods[k]) and k not in gone]
            assert len(left) >= end.groups[name].spec.min_member, f"{name} was taken below its minimum"


def _divided(end: End, name: str) -> bool:
    """Is the pod's group tried on sets of nodes? Then capacity anywhere in the set may be what it needs."""
    group = end.groups.get(_group(name, end.pods[name]))
    return group is not None and bool(group.spec.network_topology or group.metadata.annotations)


def _last_word(config: Config, rule: str) -> str:
    """The plugin without whose vote nobody is evicted, if there is one.

    Volcano: a tier that names nobody leaves it to the next, and inside a tier an empty intersection starts afresh; so
    only where one tier has a say, the last of its plugins surely has one.
    """
    able = {"gang", "conformance", "pdb"}
    able |= {"priority", "drf"} if rule == "preempt" else {"proportion", "capacity", "drf"}
    tiers = [[o.name for o in tier.plugins if o.name in able] for tier in config.tiers]
    speaking = [tier for tier in tiers if tier]
    return speaking[0][-1] if len(speaking) == 1 else ""


def _queue(end: End, name: str) -> str:
    group = end.groups.get(_group(name, end.pods[name]))
    return (group.spec.queue if group is not None else "") or "default"


def _rank(end: End, victim: str, claimer: str) -> tuple[int, int]:
    """The victim's job and pod priority less the claimer's; (0, …) inside one job."""
    jobs = [end.groups.get(_group(k, end.pods[k])) for k in (victim, claimer)]
    if jobs[0] is jobs[1] and jobs[0] is not None:
        return 0, _priority(end, victim) - _priority(end, claimer)
    values = [
        end.classes.get(g.spec.priority_class_name if g else end.pods[k].spec.priority_class_name, 0)
        for g, k in zip(jobs, (victim, claimer), strict=True)
    ]
    return values[0] - values[1], 0


def _priority(end: End, name: str) -> int:
    spec = end.pods[name].spec
    return spec.priority if spec.priority is not None else end.classes.get(spec.priority_class_name, 1)


# --- reasons


def check_reasons(end: End, plan: Plan) -> None:
    for name, pod in end.pods.items():
        waits = not pod.spec.node_name and pod.status.phase == "Pending" and pod.metadata.deletion_timestamp is None
        if waits and name not in plan.binds:
            assert plan.reasons[name].text.strip(), f"{name} waits without a reason"
