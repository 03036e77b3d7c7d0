"""What the writer sends about pods, and what it does not send any more."""

from __future__ import annotations

import asyncio

from builders.manifests import node, queue
from builders.scheduler_objects import cluster_of, waiting
from fakes.stepped_scheduler import Faults, StoreCalls
from muster.model.core import Pod
from muster.model.meta import Condition, Object
from muster.scheduler.metrics import Metrics
from muster.scheduler.status import PodStatusPatch
from muster.scheduler.status_writer import StatusWriter
from muster.store import Severity

WAITS = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")


def written(*, drop: bool = False, bind_first: bool = False) -> tuple[list[tuple[str, str]], Pod, list[str], float]:
    """Returns the calls, the pod after them, the reasons of events and the failures of a writer with one patch."""
    cluster = cluster_of(queue("default"), node("n1"), waiting("a"))
    calls, metrics, events = StoreCalls(cluster, Faults()), Metrics(), []

    def record(obj: Object, severity: Severity, reason: str, message: str) -> None:
        events.append(reason)

    async def run() -> None:
        writer = StatusWriter(calls, record, metrics)
        pod = next(iter(cluster.store.of(Pod).values()))
        writer.write([PodStatusPatch(pod, f"{pod.metadata.namespace}/a", WAITS, None, pod)])
        if drop:
            writer.drop([f"{pod.metadata.namespace}/a"])
        if bind_first:
            cluster.store.bind(f"{pod.metadata.namespace}/a", "n1", None, uid=pod.metadata.uid)
        task = asyncio.create_task(writer.run())
        while writer.waiting:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    pod = next(iter(cluster.store.of(Pod).values()))
    failures = metrics.registry.get_sample_value("muster_status_write_failures_total")
    assert failures is not None
    return calls.made, pod, events, failures


def test_a_condition_is_written_and_an_event_recorded() -> None:
    made, pod, events, failures = written()
    assert [verb for verb, _ in made] == ["condition"]
    assert WAITS in pod.status.conditions
    assert events == ["FailedScheduling"] and failures == 0


def test_the_condition_of_a_pod_that_is_being_bound_is_dropped() -> None:
    made, _, events, _ = written(drop=True)
    assert made == [] and events == []


def test_a_condition_that_arrives_after_the_binding_is_refused() -> None:
    _, pod, events, failures = written(bind_first=True)
    assert WAITS not in pod.status.conditions
    assert events == [] and failures == 1
