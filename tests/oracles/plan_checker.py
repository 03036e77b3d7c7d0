"""Is a plan allowed? Looked at from the end, pod by pod and node by node, whatever way it was found.

The checker knows the objects and the plan, not the engine: what a node holds at the end fits it, every bound pod may be
where it is, a group has its minimum or nothing, and nobody was evicted who may not be.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.config.types import Config
from muster.engine.core.plan import Plan
from muster.model.meta import Object, key
from muster.model.requests import amounts
from oracles.budget_rules import check_budgets
from oracles.chip_rules import check_chips
from oracles.group_rules import check_domains, check_native_gangs, check_native_victims, native_priority
from oracles.plan_end import CRITICAL, End, group_of, is_empty, is_ready, priority_of, queue_of, role_of
from oracles.pod_rules import Placements, check_pod_rules
from oracles.volume_rules import check_volumes


def check(objects: Iterable[Object], config: Config, plan: Plan) -> set[str]:
    """Returns the bound pods of which a rule could not be judged from the end."""
    every = list(objects)
    end = End.of(every, plan)
    assert not plan.binds.keys() & plan.pipelined.keys(), "bound and promised"
    assert len({e.pod for e in plan.evictions}) == len(plan.evictions), "evicted twice"
    for pod in (*plan.binds, *plan.pipelined):
        assert not end.pods[pod].spec.node_name, "placed twice"
        assert not end.pods[pod].spec.scheduling_gates, "placed behind its gate"
        group = group_of(pod, end.pods[pod])
        assert not group or group in end.groups or group in end.native_groups, "placed before its group is there"
    check_room(end, plan, config)
    check_gangs(end, plan, config)
    check_native_gangs(end, plan)
    check_domains(end, plan)
    check_evictions(end, plan, config)
    check_reasons(end, plan)
    if config.plugin("topology910") is not None:
        check_chips(end, plan)
    if config.plugin("predicates") is None:
        return set()
    gone = {e.pod for e in plan.evictions}
    unjudged = check_pod_rules(Placements(end.nodes, end.pods, end.there, plan.binds, plan.pipelined, gone))
    return unjudged | check_volumes(every, end, plan)


# --- capacity


def check_room(end: End, plan: Plan, config: Config) -> None:
    """Now, with what is terminating still there; and later, with everything that was promised capacity."""
    for where, newcomers in ((end.holding, plan.binds), (end.where, {**plan.binds, **plan.pipelined})):
        held = end.held(where)
        asked: dict[str, set[str]] = {}  # node → the resources of which its new pods request some
        for pod, node in newcomers.items():
            asked.setdefault(node, set()).update(n for n, v in end.requests[pod].items() if v)
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
        started = [k for k in members if k in plan.binds or is_ready(end.pods[k])]
        # pods that request nothing count while they wait for backfill
        later = [k for k in members if k not in started and not end.pods[k].spec.node_name and is_empty(end.pods[k])]
        assert len(started) + len(later) >= group.spec.min_member, f"{name}: {len(started)} of {group.spec.min_member}"
        roles = group.spec.min_task_member
        if group.spec.min_member >= sum(roles.values()):
            for role, least in roles.items():
                assert sum(role_of(end.pods[k]) == role for k in (*started, *later)) >= least, f"{name}: role {role}"


# --- evictions


def check_evictions(end: End, plan: Plan, config: Config) -> None:
    """Only running pods that may go, for a pod that is promised their capacity, by the rules of the action."""
    for eviction in plan.evictions:
        victim, claimer = end.pods[eviction.pod], end.pods[eviction.by]
        assert victim.spec.node_name == eviction.node, f"{eviction.pod} is not on {eviction.node}"
        assert victim.metadata.deletion_timestamp is None, f"{eviction.pod} is terminating"
        preemptable = victim.metadata.annotations.get("volcano.sh/preemptable", "true") == "true"
        assert preemptable, f"{eviction.pod} is protected"
        assert claimer.spec.preemption_policy != "Never", f"{eviction.by} must not evict"
        if not (is_empty(claimer) and "backfill" in config.actions):  # Volcano: backfill takes such a promise back
            assert eviction.by in plan.pipelined, "evicted for nobody"
        mine, other = (queue_of(end, k) for k in (eviction.by, eviction.pod))
        if eviction.rule == "reclaim":
            if config.compatibility == "volcano":  # by muster's rules whoever holds a node may be a victim
                assert victim.status.phase == "Running", f"{eviction.pod} does not run"
            assert mine != other, f"{eviction.pod} is reclaimed in its own queue"
            assert end.queues[other].spec.reclaimable is not False, f"{other} is not reclaimable"
        else:
            assert mine == other, f"{eviction.pod} is preempted in another queue"
    (_check_by_volcano if config.compatibility == "volcano" else _check_by_muster)(end, plan, config)


def _check_by_muster(end: End, plan: Plan, config: Config) -> None:
    """Protections hold in every tier; a job gives up its surplus or everything that it has on nodes."""
    check_native_victims(end, plan)
    check_budgets(end, plan)
    gone = {e.pod for e in plan.evictions}
    for eviction in plan.evictions:
        victim = end.pods[eviction.pod]
        if config.plugin("conformance") is not None:
            assert victim.spec.priority_class_name not in CRITICAL, f"{eviction.pod} is critical"
        if eviction.rule == "preempt":
            lower = priority_of(end, eviction.pod) < priority_of(end, eviction.by)
            jobs = [group_of(k, end.pods[k]) or k for k in (eviction.pod, eviction.by)]
            lower &= jobs[0] == jobs[1] or _job_priority(end, eviction.pod) < _job_priority(end, eviction.by)
            assert lower, f"{eviction.pod} has no lower priority than {eviction.by}"
    for name in {group_of(k, end.pods[k]) for k in gone} & end.groups.keys():
        group = end.groups[name].spec
        left = [k for k in end.members[name] if is_ready(end.pods[k]) and k not in gone]
        if all(end.pods[k].status.phase == "Succeeded" for k in left):
            continue  # the whole job
        assert len(left) >= group.min_member, f"{name} was taken below its minimum"
        if group.min_member >= sum(group.min_task_member.values()):
            for role in {role_of(end.pods[k]) for k in gone if group_of(k, end.pods[k]) == name}:
                assert sum(role_of(end.pods[k]) == role for k in left) >= group.min_task_member.get(role, 0)


def _job_priority(end: End, name: str) -> int:
    """The class of the group; of a group without one the highest priority of its pods."""
    named = group_of(name, end.pods[name])
    if named in end.native_groups:
        return native_priority(end, named)
    group = end.groups.get(named)
    if group is None:
        return priority_of(end, name)
    if group.spec.priority_class_name in end.classes:
        return end.classes[group.spec.priority_class_name]
    return max(priority_of(end, k) for k in end.members[key(group)])


def _check_by_volcano(end: End, plan: Plan, config: Config) -> None:
    gone = {e.pod for e in plan.evictions}
    for eviction in plan.evictions:
        victim = end.pods[eviction.pod]
        if eviction.by in plan.pipelined:
            assert plan.pipelined[eviction.by] == eviction.node or _divided(end, eviction.by)
        by = _last_word(config, eviction.rule)
        if by == "conformance":
            assert victim.spec.priority_class_name not in CRITICAL, f"{eviction.pod} is critical"
        if by == "priority":
            assert _rank(end, eviction.pod, eviction.by) < (0, 0)
        if by == "gang" and (name := group_of(eviction.pod, victim)):
            left = [k for k in end.members[name] if is_ready(end.pods[k]) and k not in gone]
            assert len(left) >= end.groups[name].spec.min_member, f"{name} was taken below its minimum"


def _divided(end: End, name: str) -> bool:
    """Is the pod's group tried on sets of nodes? Then capacity anywhere in the set may be what it needs."""
    group = end.groups.get(group_of(name, end.pods[name]))
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


def _rank(end: End, victim: str, claimer: str) -> tuple[int, int]:
    """The victim's job and pod priority less the claimer's; (0, …) inside one job."""
    jobs = [end.groups.get(group_of(k, end.pods[k])) for k in (victim, claimer)]
    if jobs[0] is jobs[1] and jobs[0] is not None:
        return 0, priority_of(end, victim) - priority_of(end, claimer)
    values = [
        end.classes.get(g.spec.priority_class_name if g else end.pods[k].spec.priority_class_name, 0)
        for g, k in zip(jobs, (victim, claimer), strict=True)
    ]
    return values[0] - values[1], 0


# --- reasons


def check_reasons(end: End, plan: Plan) -> None:
    for name, pod in end.pods.items():
        waits = not pod.spec.node_name and pod.status.phase == "Pending" and pod.metadata.deletion_timestamp is None
        if waits and name not in plan.binds:
            assert plan.reasons[name].text.strip(), f"{name} waits without a reason"
