"""The figures of one cycle for the metrics: queues, what waits and why, and how far the accounts can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from muster.engine.core.hooks import QueueShares
from muster.engine.core.plan import Plan
from muster.engine.core.resources import largest_share
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.scheduler.cluster_metrics import CycleStatistics, QueueStatistics
from muster.scheduler.queue_usage import Usage, node_groups

_PHASE = {"": "pending"}


def deserved(session: Session) -> dict[str, dict[str, float]]:
    """Queue → what the plugin that shares the cluster out gives it."""
    for plugin in session.flat(QueueShares):
        return plugin.deserved()
    return {}


def overused(session: Session) -> set[str]:
    # Plugins keep accounts only of queues with jobs.
    return {name for name, q in session.queues.items() if q.jobs and session.overused(q) is not None}


def figures(
    plan: Plan, state: State, shares: dict[str, dict[str, float]], over: set[str], usage: Mapping[str, Usage],
    in_groups: Mapping[str, dict[str, dict[str, float]]],
) -> CycleStatistics:  # fmt: skip
    found = CycleStatistics(nodes=len(state.nodes), pods=len(state.tasks))
    found.pending = dict(Counter(reason.code for reason in plan.reasons.values()))
    waiting = Counter(task.job.key for key in plan.reasons if (task := state.tasks.get(key)) and task.job is not None)
    found.waiting_jobs = len(waiting)
    groups_there = state.objects["PodGroup"]
    for job_key, n in waiting.items():
        # A series for every pod that came alone would be too many.
        named = job_key if job_key in groups_there else ""
        found.waiting[named] = found.waiting.get(named, 0) + n
    placed = {task.job.key: task.job for key in plan.binds if (task := state.tasks.get(key)) and task.job is not None}
    found.placed = [job.created for key, job in placed.items() if key in groups_there and key not in waiting]
    for name, queue in state.queues.items():
        allocated, requested = usage[name]
        groups: Counter[str] = Counter()
        for job in queue.jobs.values():
            if job.key in groups_there:
                phase = plan.phases.get(job.key, job.phase)
                groups[_PHASE.get(phase, phase.lower())] += 1
        given = shares.get(name, {})
        found.queues[name] = QueueStatistics(
            weight=queue.weight,
            overused=name in over,
            share=largest_share(allocated, given) if given else 0.0,
            allocated={resource: float(amount) for resource, amount in allocated.items()},
            requested={resource: float(amount) for resource, amount in requested.items()},
            deserved=dict(given),
            capability=dict(queue.capability),
            groups=dict(groups),
        )
    for name, amounts in in_groups.items():
        found.queues[name].by_node_group = amounts
    _offered(state, found)
    found.overfull = overfull(state)
    return found


def overfull(state: State) -> list[str]:
    """The nodes whose pods request more of a resource than the node offers, whoever bound them."""
    nodes = state.nodes.everything()
    return [state.nodes.names[i] for i in np.flatnonzero(np.any(nodes.used > nodes.alloc, axis=0))]


def _offered(state: State, found: CycleStatistics) -> None:
    """What the nodes of each node group have."""
    groups = node_groups(state)
    for name in sorted(set(groups) - {""}):
        members = [i for i, group in enumerate(groups) if group == name]
        offered = state.nodes.alloc[:, members].sum(axis=1).tolist()
        found.node_groups[name] = {resource: offered[row] for resource, row in state.axis.rows.items() if offered[row]}


def drift(state: State) -> int:
    """Recount every node from its pods: how many numbers of the columns differ. Slow; done now and then."""
    state.refresh()
    nodes = type(state.nodes)(state.axis, state.nodes.objects)
    here = [t for t in state.tasks.values() if 0 <= t.node < len(nodes) and t.key in state.nodes.on[t.node]]
    nodes.observe_all(here)
    return int((nodes.rows != state.nodes.rows).sum())
