"""What describes the cluster (queues, groups, pods that wait), made anew from the last cycle's figures at every scrape.

So nothing of a deleted queue, job or node group remains. Amounts are in Volcano's units: memory in bytes, everything
else in thousandths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

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
    queues: dict[str, QueueStatistics] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)  # reason → pods
    waiting: dict[str, int] = field(default_factory=dict)  # job → pods without a node; "": those of no PodGroup
    waiting_jobs: int = 0
    placed: list[float] = field(default_factory=list)  # when jobs were created whose last pod got its node just now
    node_groups: dict[str, Amounts] = field(default_factory=dict)  # node group → what its nodes offer
    assumed: int = 0
    below_minimum: int = 0
    nodes: int = 0
    overfull: list[str] = field(default_factory=list)  # nodes
    pods: int = 0


class ClusterCollector(Collector):
    def __init__(self, figures: Callable[[], CycleStatistics]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        figures = self._figures()
        yield from _queues(figures.queues)
        yield from _node_groups(figures)
        pending = GaugeMetricFamily("muster_pending_pods", "Pods that wait, by the code of why", labels=["reason"])
        for reason, n in sorted(figures.pending.items()):
            pending.add_metric([reason], n)
        yield pending
        about = "Pods of a job without a node; job_id is empty for pods that have no PodGroup"
        waiting = GaugeMetricFamily("volcano_unschedule_task_count", about, labels=["job_id"])
        for job, n in sorted(figures.waiting.items()):
            waiting.add_metric([job], n)
        yield waiting
        plain = {
            "volcano_unschedule_job_count": ("Jobs with pods that have no node", figures.waiting_jobs),
            "muster_assumed_pods": ("Pods whose binding or eviction the watch has not shown yet", figures.assumed),
            "muster_gangs_below_minimum": ("Running gangs with fewer pods than minMember", figures.below_minimum),
            "muster_nodes": ("Nodes", figures.nodes),
            "muster_overfull_nodes": ("Nodes whose pods request more than they offer", len(figures.overfull)),
            "muster_pods": ("Pods, whoever schedules them", figures.pods),
        }
        for name, (text, value) in plain.items():
            yield GaugeMetricFamily(name, text, value=value)


class ApiRequestCollector(Collector):
    """ApiRequestCollector of the API server; counted by the client, which knows nothing of metrics."""

    def __init__(self, answers: Callable[[], Mapping[tuple[str, str, int], int]]) -> None:
        self._answers = answers

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "muster_api_requests", "SchedulerApi to the API server that have an answer, watches excepted",
            labels=["method", "resource", "code"],
        )  # fmt: skip
        for (method, resource, status), count in sorted(self._answers().items()):
            family.add_metric([method, resource, str(status)], count)
        yield family


class _Amounts:
    """Three families for amounts of any resource, as Volcano splits them."""

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
        ("allocated", "that a queue holds"), ("request", "that a queue asks for"),
        ("deserved", "that a queue deserves"), ("capacity", "that a queue may hold at most, if its spec says so"),
    ):  # fmt: skip
        amounts = _Amounts(f"volcano_queue_{part}", about, "queue_name")
        for name, figures in everyone:
            of = {"allocated": figures.allocated, "request": figures.requested, "deserved": figures.deserved}
            found = of.get(part, figures.capability)
            if part != "capacity" or found:
                amounts.add([name], found)
        yield from amounts.families()
    share = family("volcano_queue_share", "The largest part of what it deserves that a queue holds")
    shares = family("muster_queue_share", "The part of what it deserves that a queue holds, by resource", "resource")
    weight = family("volcano_queue_weight", "Its weight")
    overused = family("volcano_queue_overused", "1 if it holds more than it deserves")
    for name, figures in everyone:
        share.add_metric([name], figures.share)
        weight.add_metric([name], figures.weight)
        overused.add_metric([name], float(figures.overused))
        for resource, amount in sorted(figures.deserved.items()):
            if amount > 0:
                shares.add_metric([name, resource], figures.allocated.get(resource, 0.0) / amount)
    yield from (share, shares, weight, overused)
    for phase in ("inqueue", "pending", "running", "unknown", "completed"):
        counted = family(f"volcano_queue_pod_group_{phase}_count", f"PodGroups of a queue that are {phase}")
        for name, figures in everyone:
            counted.add_metric([name], figures.groups.get(phase, 0))
        yield counted


def _node_groups(figures: CycleStatistics) -> Iterator[Metric]:
    """Node groups of the plugin nodegroup. What a queue deserves is of the whole cluster, not of a group."""
    labels = ("queue_name", "nodegroup_name")
    held = _Amounts("volcano_queue_nodegroup_allocated", "that a queue holds in a node group", *labels)
    about = "The part of what a node group offers that a queue holds, by resource"
    shares = GaugeMetricFamily("muster_queue_nodegroup_share", about, labels=[*labels, "resource"])
    offered = _Amounts("muster_nodegroup_allocatable", "that the nodes of a node group offer", "nodegroup_name")
    for name, amounts in sorted(figures.node_groups.items()):
        offered.add([name], amounts)
    for queue, of_queue in sorted(figures.queues.items()):
        for group, amounts in sorted(of_queue.by_node_group.items()):
            held.add([queue, group], amounts)
            for resource, most in sorted(figures.node_groups.get(group, {}).items()):
                if most > 0 and resource in amounts:
                    shares.add_metric([queue, group, resource], amounts[resource] / most)
    yield from held.families()
    yield from offered.families()
    yield shares
