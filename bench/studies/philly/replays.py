"""The cluster of the Philly study, and one replay in a worker process."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from muster.model.core import Node, NodeStatus
from muster.model.meta import Object, ObjectMeta
from muster.model.scheduling import Queue, QueueSpec
from muster.process.memory import keep_freed_memory
from muster.sim.inputs import config_text, load_config
from muster.sim.replay.run import ReplayOptions, replay
from muster.sim.traces import Trace

HERE = Path(__file__).parent
GPU, GPUS_OF_A_NODE = "nvidia.com/gpu", 8

Shared = tuple[Trace, Mapping[str, Mapping[str, Object]]]


def cluster(trace: Trace, nodes: int) -> dict[str, dict[str, Object]]:
    """Returns the nodes and the queues; the queues share the GPUs by their GPU-hours."""
    made: dict[str, dict[str, Object]] = {"Node": {}, "Queue": {}}
    for i in range(nodes):
        name = f"node-{i:03d}"
        status = NodeStatus(allocatable={"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS_OF_A_NODE)})
        made["Node"][name] = Node(metadata=ObjectMeta(name=name), status=status)
    hours = np.bincount(trace.queue, weights=trace.gpus * trace.duration, minlength=len(trace.queues))
    for name, part in zip(trace.queues, (hours / hours.sum()).tolist(), strict=True):
        share = round(1000 * part * nodes * GPUS_OF_A_NODE)
        spec = QueueSpec(weight=max(round(1000 * part), 1), deserved={GPU: f"{share}m"})
        made["Queue"][name] = Queue(metadata=ObjectMeta(name=name), spec=spec)
    return made


def run(shared: Shared, policy: str) -> dict[str, Any]:
    """Replays the trace in this process, and measures CPU time and memory."""
    keep_freed_memory()
    trace, objects = shared
    text = config_text(HERE / f"{policy}.yaml")
    assert text is not None
    memory: list[float] = []

    def progress(done: int, jobs: int) -> None:
        if done >= (len(memory) + 1) * jobs / 10:
            memory.append(round(rss_mib(), 1))

    before = time.process_time()
    result = replay(trace, objects, load_config(text), ReplayOptions(), name=policy, progress=progress)
    return {"replay": result, "cpu_seconds": time.process_time() - before, "rss_mib": memory}


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
