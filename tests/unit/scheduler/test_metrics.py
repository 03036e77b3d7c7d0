"""The metrics: Volcano's names where its users know them, nothing stale, a dashboard of existing metrics."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from builders.manifests import node, queue, typed
from builders.scheduler_objects import cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Leader
from muster.process.logs import Log
from muster.process.settings import ClusterSettings, LeaseSettings
from muster.scheduler.cluster_metrics import CycleStatistics, QueueStatistics
from muster.scheduler.metrics import Metrics
from muster.scheduler.service import SchedulerService
from muster.scheduler.settings import SchedulerSettings

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "scheduler.json"


def samples(metrics: Metrics) -> dict[str, str]:
    """Names that can be queried → the type."""
    found: dict[str, str] = {}
    for line in metrics.text().decode().splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            found |= {f"{name}{end}": kind for end in ends}
    return found


# Those that say something about what muster has, too. Not the rest: namespaces have no shares of their own in its drf,
# no scheduler retries jobs, and a job's own times and shares are nothing to keep a series for.
VOLCANO = """
volcano_e2e_scheduling_latency_milliseconds_bucket volcano_e2e_job_scheduling_latency_milliseconds_bucket
volcano_plugin_scheduling_latency_milliseconds_bucket volcano_action_scheduling_latency_milliseconds_bucket
volcano_task_scheduling_latency_milliseconds_bucket volcano_schedule_attempts_total volcano_pod_preemption_victims
volcano_total_preemption_attempts volcano_unschedule_task_count volcano_unschedule_job_count
volcano_queue_allocated_milli_cpu volcano_queue_allocated_memory_bytes volcano_queue_allocated_scalar_resources
volcano_queue_request_milli_cpu volcano_queue_request_memory_bytes volcano_queue_request_scalar_resources
volcano_queue_deserved_milli_cpu volcano_queue_deserved_memory_bytes volcano_queue_deserved_scalar_resources
volcano_queue_capacity_milli_cpu volcano_queue_capacity_memory_bytes volcano_queue_capacity_scalar_resources
volcano_queue_nodegroup_allocated_milli_cpu volcano_queue_nodegroup_allocated_memory_bytes
volcano_queue_nodegroup_allocated_scalar_resources volcano_queue_share volcano_queue_weight volcano_queue_overused
volcano_queue_pod_group_inqueue_count volcano_queue_pod_group_pending_count volcano_queue_pod_group_running_count
volcano_queue_pod_group_unknown_count volcano_queue_pod_group_completed_count
"""


def test_volcanos_metrics_have_volcanos_names() -> None:
    known = samples(Metrics())
    assert [name for name in VOLCANO.split() if name not in known] == []
    ours = {name for name in known if name.startswith("volcano_") and not name.endswith(("_sum", "_created"))}
    assert sorted(name for name in ours - set(VOLCANO.split()) if known[name] != "histogram") == []


def test_what_is_gone_from_the_cluster_is_gone_from_the_metrics() -> None:
    metrics = Metrics()
    metrics.statistics = CycleStatistics(queues={"red": QueueStatistics(weight=3)}, pending={"unschedulable": 2})
    assert metrics.registry.get_sample_value("volcano_queue_weight", {"queue_name": "red"}) == 3
    metrics.statistics = CycleStatistics()
    assert metrics.registry.get_sample_value("volcano_queue_weight", {"queue_name": "red"}) is None
    assert metrics.registry.get_sample_value("muster_pending_pods", {"reason": "unschedulable"}) is None
    assert '"red"' not in metrics.text().decode()


def test_a_cycle_exports_the_usage_of_queues_and_the_latency_of_actions() -> None:
    async def run() -> None:
        cluster = cluster_of(
            queue("default", weight=2), node("n1"), pod_group("g", members=2),
            *(waiting(f"g-x-{i}", "g") for i in range(2)), waiting("big", cpu="99"),
        )  # fmt: skip
        leader = Leader(cluster)
        await leader.settle(3)
        value = leader.metrics.registry.get_sample_value
        assert value("volcano_queue_allocated_milli_cpu", {"queue_name": "default"}) == 2000
        assert value("volcano_queue_pod_group_running_count", {"queue_name": "default"}) == 1
        assert value("volcano_unschedule_task_count", {"job_id": ""}) == 1
        assert value("volcano_e2e_job_scheduling_latency_milliseconds_count") == 1
        assert value("muster_binds_total") == 2 and value("muster_decisions_total") == 2
        assert value("volcano_action_scheduling_latency_milliseconds_count", {"action": "allocate"}) == 3
        labels = {"plugin": "gang", "OnSession": "OnSessionOpen"}
        assert value("volcano_plugin_scheduling_latency_milliseconds_count", labels) == 3

    asyncio.run(run())


def test_a_share_is_exported_by_resource_and_by_node_group() -> None:
    async def run() -> None:
        group = {"volcano.sh/nodegroup-name": "gpu"}
        red = typed(queue("red", weight=1))
        red.spec.capability = {"cpu": "3"}
        cluster = cluster_of(
            red, node("n1", cpu="4", labels=group), node("n2", cpu="4"), pod_group("g", members=1, queue="red"),
            waiting("g-x-0", "g", on="n1", cpu="1"), pod_group("h", members=9, queue="red"),
            *(waiting(f"h-x-{i}", "h", cpu="1") for i in range(9)),
        )  # fmt: skip
        leader = Leader(cluster)
        await leader.settle(3)
        value = leader.metrics.registry.get_sample_value
        on_group = {"queue_name": "red", "nodegroup_name": "gpu"}
        assert value("volcano_queue_nodegroup_allocated_milli_cpu", on_group) == 1000
        assert value("muster_nodegroup_allocatable_milli_cpu", {"nodegroup_name": "gpu"}) == 4000
        assert value("muster_queue_nodegroup_share", {**on_group, "resource": "cpu"}) == 0.25
        assert value("volcano_queue_capacity_milli_cpu", {"queue_name": "red"}) == 3000
        deserved = value("volcano_queue_deserved_milli_cpu", {"queue_name": "red"})
        assert deserved and value("muster_queue_share", {"queue_name": "red", "resource": "cpu"}) == 1000 / deserved
        assert value("volcano_unschedule_task_count", {"job_id": "d/h"}) == 9

    asyncio.run(run())


def test_a_job_is_timed_when_its_last_pod_has_a_node() -> None:
    async def run() -> None:
        cluster = cluster_of(
            queue("default", weight=1), node("n1", cpu="2"), pod_group("g", members=1), waiting("g-x-0", "g"),
            waiting("g-x-1", "g", cpu="99"),
        )  # fmt: skip
        leader = Leader(cluster)
        await leader.settle(3)
        assert leader.metrics.registry.get_sample_value("muster_binds_total") == 1
        assert leader.metrics.registry.get_sample_value("volcano_e2e_job_scheduling_latency_milliseconds_count") == 0

    asyncio.run(run())


def test_the_dashboard_queries_only_existing_metrics() -> None:
    settings = SchedulerSettings(cluster=ClusterSettings(), lease=LeaseSettings(part="scheduler"))
    known = samples(SchedulerService(settings, Log(-1)).metrics)
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked: set[str] = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            found = re.findall(r"\b(?:muster|volcano)_\w+", target["expr"])
            assert found, target["expr"]
            asked.update(found)
            for name in found:
                # A rate of what goes up and down, or a plain look at a counter, says nothing.
                counts = known.get(name) in ("counter", "histogram")
                assert counts == ("rate(" in target["expr"]), target["expr"]
    assert sorted(asked - known.keys()) == []
    assert len(asked) > 20


def test_the_dashboard_names_labels_that_the_metrics_have() -> None:
    labels = {"le", "action", "plugin", "reason", "way", "queue_name", "nodegroup_name", "resource", "result"}
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    by = {name for t in targets for found in re.findall(r"by \(([^)]*)\)", t["expr"]) for name in found.split(", ")}
    named = {name for t in targets for name in re.findall(r"{{(\w+)}}", t.get("legendFormat", ""))}
    assert by | named <= labels
