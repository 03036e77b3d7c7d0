"""Prometheus metrics: with Volcano's names and units where its users know them, and muster's own.

Events are counted here when they happen; what describes the cluster is exported by `cluster_metrics`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from muster.engine.core.session import ACTION, Measure
from muster.model.core import Pod
from muster.model.meta import seconds
from muster.process.config_watcher import ConfigMetrics
from muster.scheduler.cluster_metrics import ApiRequestCollector, ClusterCollector, CycleStatistics

_MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000)
_FINE = (0.05, 0.1, 0.2, 0.5, *_MILLISECONDS)
_LONG = (*_MILLISECONDS, 300_000, 3_600_000)
_SECONDS = tuple(n / 1000 for n in _MILLISECONDS)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.statistics = CycleStatistics()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        # Volcano's
        self.cycle_ms = histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "A whole scheduling cycle", buckets=_MILLISECONDS
        )
        self.action_ms = histogram(
            "volcano_action_scheduling_latency_milliseconds", "An action of a cycle", ["action"], buckets=_FINE
        )
        self.plugin_ms = histogram(
            "volcano_plugin_scheduling_latency_milliseconds", "A plugin at the start or end of a cycle",
            ["plugin", "OnSession"], buckets=_FINE,
        )  # fmt: skip
        self.task_ms = histogram(
            "volcano_task_scheduling_latency_milliseconds", "From a pod's creation to its binding", buckets=_LONG
        )
        self.job_ms = histogram(
            "volcano_e2e_job_scheduling_latency_milliseconds", "From a PodGroup's creation to its last placement",
            buckets=_LONG,
        )  # fmt: skip
        self.attempts = counter("volcano_schedule_attempts", "Attempts to schedule pods, by result", ["result"])
        # Volcano: a counter by nature, whose name does not end as a counter's; Python's client would append _total.
        self.preemptions = gauge("volcano_total_preemption_attempts", "Preemption and reclaim attempts so far")
        self.victims = gauge("volcano_pod_preemption_victims", "Victims of the last cycle that had any")
        # muster's
        self.decisions = counter("muster_decisions", "Pods that cycles have placed")
        self.binds = counter("muster_binds", "Bindings that the API server accepted")
        self.bind_failures = counter("muster_bind_failures", "Bindings that failed")
        self.bind_seconds = histogram(
            "muster_bind_seconds", "One binding, including its volumes and the first binding of its gang",
            buckets=_SECONDS,
        )  # fmt: skip
        self.cycle_seconds = histogram("muster_cycle_seconds", "One cycle without API calls", buckets=_SECONDS)
        self.evictions = counter("muster_evictions", "Pods evicted for others")
        self.evictions_refused = counter("muster_evictions_refused", "Evictions the API server refused")
        self.status_failures = counter("muster_status_write_failures", "Statuses that could not be written")
        self.gang_commits = counter("muster_gang_commits_finished", "Gangs whose bindings were all accepted")
        self.repairs = counter("muster_gang_repairs", "Interrupted gang commits, by recovery action", ["way"])
        self.rejections = counter("muster_kubelet_rejections", "Pods rejected by their kubelet", ["reason"])
        self.drift = gauge("muster_cache_drift", "Node accounts that the last recount found wrong; 0 without a bug")
        self.rechecks = counter("muster_cache_rechecks", "Pods read because the watch did not confirm a call")
        self.configuration = ConfigMetrics(self.registry)
        labels = ["severity", "code"]
        self.config_findings = gauge("muster_configuration_findings", "Findings of the configuration in use", labels)
        self.unmet = gauge("muster_unmet_requirements", "Requirements of objects that no plugin provides", labels)
        self.faults = counter("muster_faults", "Internal errors after which muster has restarted its work")
        self.loop_lag = histogram(
            "muster_event_loop_lag_seconds", "How late the event loop is", buckets=(0.001, 0.005, 0.01, 0.02, 0.05,
            0.1, 0.2, 0.5, 1, 2, 5),
        )  # fmt: skip
        self.answers: Mapping[tuple[str, str, int], int] = {}  # of the API server: method, resource, status → count
        self.registry.register(ClusterCollector(lambda: self.statistics))
        self.registry.register(ApiRequestCollector(lambda: self.answers))

    def bound(self, took: float, pod: Pod) -> None:
        self.binds.inc()
        self.bind_seconds.observe(took)
        created = seconds(pod.metadata.creation_timestamp)
        if created:
            self.task_ms.observe(max(time.time() - created, 0.0) * 1000)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Timer:
    """Observes how long its blocks take, in milliseconds; a block that raises is not observed."""

    __slots__ = ("_began", "_observe")

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._observe((time.perf_counter() - self._began) * 1000)


def measured(metrics: Metrics) -> Measure:
    """The engine reads no clock: it names the step, and the time is taken here. A step does not contain itself."""
    timers: dict[tuple[str, str], _Timer] = {}  # finding a metric by its labels takes longer than the observation

    def measure(part: str, step: str) -> _Timer:
        timer = timers.get((part, step))
        if timer is None:
            found = metrics.action_ms.labels(part) if step == ACTION else metrics.plugin_ms.labels(part, step)
            timer = timers[part, step] = _Timer(found.observe)
        return timer

    return measure
