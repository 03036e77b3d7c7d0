"""Prometheus metrics: Volcano's names and units where its users know them, muster's own beside them.

What describes the cluster (queues, groups, pods that wait) is made anew from the last cycle's figures at every scrape,
so nothing of a deleted queue or node group remains; what happened is counted as it happens.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from muster.model.core import Pod
from muster.model.meta import seconds

_MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000)
_MICROSECONDS = tuple(1000 * n for n in _MILLISECONDS)
_SECONDS = tuple(n / 1000 for n in _MILLISECONDS)


@dataclass(slots=True)
class QueueFigures:
    """A queue as the last cycle saw it; amounts by resource in internal units."""

    weight: int = 0
    overused: bool = False
    share: float = 0.0
    allocated: dict[str, float] = field(default_factory=dict)
    requested: dict[str, float] = field(default_factory=dict)
    deserved: dict[str, float] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)  # phase → PodGroups
    by_node_group: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Figures:
    queues: dict[str, QueueFigures] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)  # reason → pods
    waiting_jobs: int = 0
    assumed: int = 0
    below_minimum: int = 0
    drift: int = 0
    nodes: int = 0
    pods: int = 0


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.figures = Figures()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        # Volcano's
        self.cycle_ms = histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "A whole scheduling cycle", buckets=_MILLISECONDS
        )
        self.action_us = histogram(
            "volcano_action_scheduling_latency_microseconds", "An action of a cycle", ["action"],
            buckets=_MICROSECONDS,
        )  # fmt: skip
        self.plugin_us = histogram(
            "volcano_plugin_scheduling_latency_microseconds", "A plugin at the start or end of a cycle",
            ["plugin", "OnSession"], buckets=_MICROSECONDS,
        )  # fmt: skip
        self.task_ms = histogram(
            "volcano_task_scheduling_latency_milliseconds", "From a pod's creation to its binding",
            buckets=(*_MILLISECONDS, 300_000, 3_600_000),
        )  # fmt: skip
        self.attempts = counter("volcano_schedule_attempts", "Attempts to schedule pods, by result", ["result"])
        self.victims = counter("volcano_total_preemption_victims", "Pods evicted for others")
        self.preemptions = counter("volcano_total_preemption_attempts", "Claims for others' room")
        # muster's
        self.decisions = counter("muster_decisions", "Pods that a cycle gave a node")
        self.binds = counter("muster_binds", "Bindings that the API server accepted")
        self.bind_failures = counter("muster_bind_failures", "Bindings that failed")
        self.bind_seconds = histogram("muster_bind_seconds", "One binding, its claims included", buckets=_SECONDS)
        self.cycle_seconds = histogram("muster_cycle_seconds", "Deciding, without waiting", buckets=_SECONDS)
        self.evictions_refused = counter("muster_evictions_refused", "Evictions the API server refused")
        self.status_failures = counter("muster_status_write_failures", "Statuses that could not be written")
        self.journals_closed = counter("muster_gang_commits_finished", "Gangs whose bindings all arrived")
        self.repairs = counter("muster_gang_repairs", "Commits cut short, by what was done about them", ["way"])
        self.rejections = counter("muster_kubelet_rejections", "Pods rejected by their kubelet", ["reason"])
        self.rechecks = counter("muster_cache_rechecks", "Pods looked at because the watch was silent")
        self.reloads = counter("muster_configuration_reloads", "Configurations read again, by result", ["result"])
        self.config_good = gauge("muster_configuration_valid", "1 while the configuration found is the one in use")
        self.faults = counter("muster_faults", "Faults of muster itself, after which it began anew")
        self.leading = gauge("muster_leader", "1 while this process leads")
        self.loop_lag = histogram(
            "muster_event_loop_lag_seconds", "How late the event loop is", buckets=(0.001, 0.005, 0.01, 0.02, 0.05,
            0.1, 0.2, 0.5, 1, 2, 5),
        )  # fmt: skip
        self.config_good.set(1)
        self.registry.register(_Snapshot(self))

    def bound(self, took: float, pod: Pod) -> None:
        self.binds.inc()
        self.bind_seconds.observe(took)
        created = seconds(pod.metadata.creation_timestamp)
        if created:
            self.task_ms.observe(max(time.time() - created, 0.0) * 1000)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Snapshot(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        figures = self._metrics.figures
        yield from _queues(figures.queues)
        pending = GaugeMetricFamily("muster_pending_pods", "Pods that wait, by the code of why", labels=["reason"])
        for reason, n in sorted(figures.pending.items()):
            pending.add_metric([reason], n)
        yield pending
        waiting = sum(figures.pending.values())
        yield GaugeMetricFamily("volcano_unschedule_task_count", "Pods without a node", value=waiting)
        yield GaugeMetricFamily("volcano_unschedule_job_count", "Groups with such pods", value=figures.waiting_jobs)
        plain = {
            "muster_assumed_pods": ("Pods whose binding or eviction the watch has not shown yet", figures.assumed),
            "muster_gangs_below_minimum": ("Running gangs with fewer pods than minMember", figures.below_minimum),
            "muster_cache_drift": ("Accounts that differed from a recount; 0 unless there is a fault", figures.drift),
            "muster_nodes": ("Nodes", figures.nodes),
            "muster_pods": ("Pods, whoever schedules them", figures.pods),
        }
        for name, (about, value) in plain.items():
            yield GaugeMetricFamily(name, about, value=value)


def _queues(queues: dict[str, QueueFigures]) -> Iterator[Metric]:
    def family(name: str, about: str, *more: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, about, labels=["queue_name", *more])

    for part in ("allocated", "request", "deserved"):
        cpu = family(f"volcano_queue_{part}_milli_cpu", f"cpu {part} of a queue, thousandths")
        memory = family(f"volcano_queue_{part}_memory_bytes", f"memory {part} of a queue")
        other = family(f"volcano_queue_{part}_scalar_resources", f"other resources {part} of a queue", "resource")
        for name, figures in sorted(queues.items()):
            amounts = {"allocated": figures.allocated, "request": figures.requested, "deserved": figures.deserved}[part]
            cpu.add_metric([name], amounts.get("cpu", 0.0))
            memory.add_metric([name], amounts.get("memory", 0.0))
            for resource, amount in sorted(amounts.items()):
                if resource not in ("cpu", "memory", "pods"):
                    other.add_metric([name, resource], amount / 1000)
        yield from (cpu, memory, other)
    share = family("volcano_queue_share", "The largest part of what it deserves that a queue holds")
    weight = family("volcano_queue_weight", "Its weight")
    overused = family("volcano_queue_overused", "1 if it holds more than it deserves")
    grouped = family("muster_queue_node_group_allocated", "What it holds in a node group", "node_group", "resource")
    for name, figures in sorted(queues.items()):
        share.add_metric([name], figures.share)
        weight.add_metric([name], figures.weight)
        overused.add_metric([name], float(figures.overused))
        for node_group, amounts in sorted(figures.by_node_group.items()):
            for resource, amount in sorted(amounts.items()):
                grouped.add_metric([name, node_group, resource], amount)
    yield from (share, weight, overused, grouped)
    for phase in ("inqueue", "pending", "running", "unknown", "completed"):
        counted = family(f"volcano_queue_pod_group_{phase}_count", f"PodGroups of a queue that are {phase}")
        for name, figures in sorted(queues.items()):
            counted.add_metric([name], figures.groups.get(phase, 0))
        yield counted
