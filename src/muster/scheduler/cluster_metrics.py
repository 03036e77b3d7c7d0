"""Metrics that describe the cluster (queues, groups, pending pods): collected once per cycle, exported at every scrape.

Every scrape builds them again from the statistics of the last cycle, so nothing of a deleted queue, job or node group
remains. Amounts are in Volcano's units: memory in bytes, everything else in thousandths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from muster.engine.core.hooks import QueueShares
from muster.engine.core.plan import Plan
from muster.engine.core.resources import add, largest_share
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.scheduler.queue_usage import QueueUsage, group_phases

Amounts = dict[str, float]


@dataclass(slots=True)
class QueueStatistics:
    """A queue as the last cycle saw it; amounts by resource in internal units."""

    weight: int = 0
    overused: bool = False
    share: float = 0.0
    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)  # phase → PodGroups
    by_node_group: dict[str, Amounts] = field(default_factory=dict)


@dataclass(slots=True)
class CycleStatistics:
    """The cluster as the last cycle saw it."""

    queues: dict[str, QueueStatistics] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)  # reason → pods
    waiting: dict[str, int] = field(default_factory=dict)  # job → pods without a node; "": pods without a PodGroup
    waiting_jobs: int = 0
    placed: list[float] = field(default_factory=list)  # when jobs were created whose last pod got its node just now
    node_groups: dict[str, Amounts] = field(default_factory=dict)  # node group → what its nodes offer
    assumed: int = 0
    below_minimum: int = 0
    nodes: int = 0
    overfull: list[str] = field(default_factory=list)  # nodes
    pods: int = 0


# --- once per cycle

_PHASE = {"": "pending"}


def deserved(session: Session) -> dict[str, dict[str, float]]:
    """Returns what each queue deserves, by the plugin that divides the cluster."""
    for plugin in session.flat(QueueShares):
        return plugin.deserved()
    return {}


def overused(session: Session) -> set[str]:
    """Returns the queues that have allocated more than they deserve. Plugins have accounts only of queues with jobs."""
    return {name for name, q in session.queues.items() if q.jobs and session.overused(q) is not None}


def cycle_statistics(
    plan: Plan, state: State, shares: dict[str, dict[str, float]], over: set[str], queue_usage: QueueUsage
) -> CycleStatistics:
    statistics = CycleStatistics(nodes=len(state.nodes), pods=len(state.tasks))
    statistics.pending = dict(Counter(map(attrgetter("code"), plan.reasons.values())))
    waiting = Counter(task.job.key for key in plan.reasons if (task := state.tasks.get(key)) and task.job is not None)
    statistics.waiting_jobs = len(waiting)
    for job_key, n in waiting.items():
        # A series for every pod without a PodGroup would be too many.
        job = state.jobs[job_key]
        named = job.shown if job.plain_class is None and state.group_object(job) is not None else ""
        statistics.waiting[named] = statistics.waiting.get(named, 0) + n
    placed = {task.job.key: task.job for key in plan.binds if (task := state.tasks.get(key)) and task.job is not None}
    statistics.placed = [
        job.created for key, job in placed.items() if key not in waiting and state.group_object(job) is not None
    ]
    usage, phases = queue_usage.by_queue(state), group_phases(plan, state)
    for name, queue in state.queues.items():
        allocated, requested = usage[name]
        groups: Counter[str] = Counter()
        for phase, n in phases.get(name, {}).items():
            groups[_PHASE.get(phase, phase.lower())] += n
        given = shares.get(name, {})
        statistics.queues[name] = QueueStatistics(
            weight=queue.weight,
            overused=name in over,
            share=largest_share(allocated, given) if given else 0.0,
            allocated={resource: float(amount) for resource, amount in allocated.items()},
            requested={resource: float(amount) for resource, amount in requested.items()},
            deserved=dict(given),
            capability=dict(queue.capability),
            groups=dict(groups),
        )
    for name, amounts in queue_usage.by_node_group(state).items():
        statistics.queues[name].by_node_group = amounts
    _offered(state, queue_usage.node_groups(state), statistics)
    statistics.overfull = overfull(state)
    return statistics


def overfull(state: State) -> list[str]:
    """Returns the nodes whose pods request more of a resource than is allocatable, whoever bound them."""
    nodes, size = state.nodes, state.axis.size
    return [nodes.names[i] for i in np.flatnonzero(np.any(nodes.rows[2 * size : 3 * size] > nodes.offered, axis=0))]


def _offered(state: State, groups: Sequence[str], statistics: CycleStatistics) -> None:
    """Adds the allocatable resources of each node group; `groups` has the group of each node."""
    for name in sorted(set(groups) - {""}):
        members = [i for i, group in enumerate(groups) if group == name]
        offered: dict[str, int] = {}
        for node in members:
            add(offered, state.nodes.amounts(state.nodes.offered, node))
        statistics.node_groups[name] = {resource: amount for resource, amount in offered.items() if amount}


def drift(state: State) -> int:
    """Recounts every node from its pods; returns how many amounts differ. Slow, so it runs at intervals."""
    state.refresh()
    nodes = type(state.nodes)(state.axis, state.nodes.objects)
    here = [t for t in state.tasks.values() if 0 <= t.node < len(nodes) and t.key in state.nodes.on[t.node]]
    nodes.observe(here, 1)
    return int((nodes.rows != state.nodes.rows).sum())


# --- at every scrape


class ClusterCollector(Collector):
    """Exports the statistics of the last cycle."""

    def __init__(self, statistics: Callable[[], CycleStatistics]) -> None:
        self._figures = statistics

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        statistics = self._figures()
        yield from _queues(statistics.queues)
        yield from _node_groups(statistics)
        pending = GaugeMetricFamily("muster_pending_pods", "Pending pods, by the code of the reason", labels=["reason"])
        for reason, n in sorted(statistics.pending.items()):
            pending.add_metric([reason], n)
        yield pending
        about = "Pods of a job without a node; job_id is empty for pods that have no PodGroup"
        waiting = GaugeMetricFamily("volcano_unschedule_task_count", about, labels=["job_id"])
        for job, n in sorted(statistics.waiting.items()):
            waiting.add_metric([job], n)
        yield waiting
        plain = {
            "volcano_unschedule_job_count": ("Jobs with pods that have no node", statistics.waiting_jobs),
            "muster_assumed_pods": ("Pods whose binding or eviction the watch has not shown yet", statistics.assumed),
            "muster_gangs_below_minimum": ("Running gangs with fewer pods than minMember", statistics.below_minimum),
            "muster_nodes": ("Nodes", statistics.nodes),
            "muster_overfull_nodes": ("Nodes whose pods request more than they offer", len(statistics.overfull)),
            "muster_pods": ("Pods, whoever schedules them", statistics.pods),
        }
        for name, (text, value) in plain.items():
            yield GaugeMetricFamily(name, text, value=value)


class ApiRequestCollector(Collector):
    """Exports the answers of the API server, which the client counts."""

    def __init__(self, answers: Callable[[], Mapping[tuple[str, str, int], int]]) -> None:
        self._answers = answers

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "muster_api_requests", "Answered requests to the API server, watches excluded",
            labels=["method", "resource", "code"],
        )  # fmt: skip
        for (method, resource, status), count in sorted(self._answers().items()):
            family.add_metric([method, resource, str(status)], count)
        yield family


class _Amounts:
    """Three metric families for amounts of any resource, as Volcano splits them."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._cpu = GaugeMetricFamily(f"{name}_milli_cpu", f"cpu {about}, in thousandths", labels=labels)
        self._memory = GaugeMetricFamily(f"{name}_memory_bytes", f"memory {about}", labels=labels)
        self._other = GaugeMetricFamily(
            f"{name}_scalar_resources", f"any other resource {about}, in thousandths", labels=[*labels, "resource"]
        )

    def add(self, labels: list[str], amounts: Amounts) -> None:
        self._cpu.add_metric(labels, amounts.get("cpu", 0.0))
        self._memory.add_metric(labels, amounts.get("memory", 0.0))
        for resource, amount in sorted(amounts.items()):
            if resource not in ("cpu", "memory", "pods"):
                self._other.add_metric([*labels, resource], amount)

    def families(self) -> Iterator[Metric]:
        yield from (self._cpu, self._memory, self._other)


def _queues(queues: dict[str, QueueStatistics]) -> Iterator[Metric]:
    def family(name: str, about: str, *more: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, about, labels=["queue_name", *more])

    everyone = sorted(queues.items())
    for part, about in (
        ("allocated", "that a queue has allocated"), ("request", "that a queue requests"),
        ("deserved", "that a queue deserves"), ("capacity", "of a queue's capability, if its spec has one"),
    ):  # fmt: skip
        amounts = _Amounts(f"volcano_queue_{part}", about, "queue_name")
        for name, statistics in everyone:
            of = {"allocated": statistics.allocated, "request": statistics.requested, "deserved": statistics.deserved}
            found = of.get(part, statistics.capability)
            if part != "capacity" or found:
                amounts.add([name], found)
        yield from amounts.families()
    share = family("volcano_queue_share", "A queue's dominant share: its allocation divided by what it deserves")
    shares = family("muster_queue_share", "A queue's allocation divided by what it deserves, by resource", "resource")
    weight = family("volcano_queue_weight", "Its weight")
    overused = family("volcano_queue_overused", "1 if it has allocated more than it deserves")
    for name, statistics in everyone:
        share.add_metric([name], statistics.share)
        weight.add_metric([name], statistics.weight)
        overused.add_metric([name], float(statistics.overused))
        for resource, amount in sorted(statistics.deserved.items()):
            if amount > 0:
                shares.add_metric([name, resource], statistics.allocated.get(resource, 0.0) / amount)
    yield from (share, shares, weight, overused)
    for phase in ("inqueue", "pending", "running", "unknown", "completed"):
        counted = family(f"volcano_queue_pod_group_{phase}_count", f"PodGroups of a queue that are {phase}")
        for name, statistics in everyone:
            counted.add_metric([name], statistics.groups.get(phase, 0))
        yield counted


def _node_groups(statistics: CycleStatistics) -> Iterator[Metric]:
    """Yields the metrics of node groups (plugin nodegroup). A queue deserves a share of the cluster, not of a group."""
    labels = ("queue_name", "nodegroup_name")
    allocated = _Amounts("volcano_queue_nodegroup_allocated", "that a queue has allocated in a node group", *labels)
    about = "A queue's allocation divided by what a node group offers, by resource"
    shares = GaugeMetricFamily("muster_queue_nodegroup_share", about, labels=[*labels, "resource"])
    offered = _Amounts("muster_nodegroup_allocatable", "that the nodes of a node group offer", "nodegroup_name")
    for name, amounts in sorted(statistics.node_groups.items()):
        offered.add([name], amounts)
    for queue, of_queue in sorted(statistics.queues.items()):
        for group, amounts in sorted(of_queue.by_node_group.items()):
            allocated.add([queue, group], amounts)
            for resource, most in sorted(statistics.node_groups.get(group, {}).items()):
                if most > 0 and resource in amounts:
                    shares.add_metric([queue, group, resource], amounts[resource] / most)
    yield from allocated.families()
    yield from offered.families()
    yield shares
