"""The metrics: Volcano's names where its users know them, nothing stale, a dashboard that asks for what there is."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from hand_driven import Leader
from live_objects import cluster_of, waiting
from muster.live.metrics import Figures, Metrics, QueueFigures
from small_cluster import node, pod_group, queue

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "scheduler.json"


def names(metrics: Metrics) -> set[str]:
    return {line.split()[2] for line in metrics.text().decode().splitlines() if line.startswith("# TYPE")}


def test_what_is_gone_from_the_cluster_is_gone_from_the_metrics() -> None:
    metrics = Metrics()
    metrics.figures = Figures(queues={"red": QueueFigures(weight=3)}, pending={"unschedulable": 2})
    assert metrics.registry.get_sample_value("volcano_queue_weight", {"queue_name": "red"}) == 3
    metrics.figures = Figures()
    assert metrics.registry.get_sample_value("volcano_queue_weight", {"queue_name": "red"}) is None
    assert metrics.registry.get_sample_value("muster_pending_pods", {"reason": "unschedulable"}) is None


def test_a_cycle_tells_what_queues_hold_and_how_long_actions_took() -> None:
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
        assert value("volcano_unschedule_task_count") == 1
        assert value("muster_binds_total") == 2 and value("muster_decisions_total") == 2
        assert value("volcano_action_scheduling_latency_microseconds_count", {"action": "allocate"}) == 3
        labels = {"plugin": "gang", "OnSession": "OnSessionOpen"}
        assert value("volcano_plugin_scheduling_latency_microseconds_count", labels) == 3

    asyncio.run(run())


def test_the_dashboard_asks_only_for_metrics_that_there_are() -> None:
    known = names(Metrics())
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = {
        name for panel in board["panels"] for target in panel["targets"]
        for name in re.findall(r"\b(?:muster|volcano)_\w+", target["expr"])
    }  # fmt: skip
    assert len(asked) > 15
    for name in asked:
        assert name.removesuffix("_bucket") in known or name.removesuffix("_total") + "_total" in known, name
