"""The figures of one cycle for the metrics: queues, what waits and why, and how far the accounts can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from muster.engine.hooks import QueueShares
from muster.engine.jobs import Status
from muster.engine.plan import Plan
from muster.engine.resources import largest_share
from muster.engine.session import Session
from muster.engine.state import State
from muster.live.gauges import Figures, QueueFigures
from muster.live.holdings import Holding

NODE_GROUP = "volcano.sh/nodegroup-name"
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
    plan: Plan, state: State, shares: dict[str, dict[str, float]], over: set[str], holdings: Mapping[str, Holding]
) -> Figures:
    found = Figures(nodes=len(state.nodes), pods=len(state.tasks))
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
        allocated, requested = holdings[name]
        groups: Counter[str] = Counter()
        for job in queue.jobs.values():
            if job.key in groups_there:
                phase = plan.phases.get(job.key, job.phase)
                groups[_PHASE.get(phase, phase.lower())] += 1
        given = shares.get(name, {})
        found.queues[name] = QueueFigures(
            weight=queue.weight,
            overused=name in over,
            share=largest_share(allocated, given) if given else 0.0,
            allocated={resource: float(amount) for resource, amount in allocated.items()},
            requested={resource: float(amount) for resource, amount in requested.items()},
            deserved=dict(given),
            capability=dict(queue.capability),
            groups=dict(groups),
        )
    _by_node_group(state, found)
    return found


def _by_node_group(state: State, found: Figures) -> None:
    groups = [node.metadata.labels.get(NODE_GROUP, "") for node in state.nodes.objects]
    if not any(groups):
        return
    for name in sorted(set(groups) - {""}):
        members = [i for i, group in enumerate(groups) if group == name]
        offered = state.nodes.alloc[:, members].sum(axis=1).tolist()
        found.node_groups[name] = {resource: offered[row] for resource, row in state.axis.rows.items() if offered[row]}
    for task in state.tasks.values():
        job = task.job
        if job is None or job.queue is None or task.node < 0 or not groups[task.node]:
            continue
        if task.status not in (Status.BOUND, Status.RUNNING):
            continue
        of_queue = found.queues[job.queue.name].by_node_group
        amounts = of_queue.setdefault(groups[task.node], {})
        for name, amount in task.shape.amounts.items():
            amounts[name] = amounts.get(name, 0.0) + amount


def drift(state: State) -> int:
    """Recount every node from its pods: how many numbers of the columns differ. Slow; done now and then."""
    state.refresh()
    nodes = type(state.nodes)(state.axis, state.nodes.objects)
    here = [t for t in state.tasks.values() if 0 <= t.node < len(nodes) and t.key in state.nodes.on[t.node]]
    nodes.settle_all(here)
    return int((nodes.rows != state.nodes.rows).sum())
