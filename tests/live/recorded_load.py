"""The load of a recorded run: the trace, the nodes and the queues, computed from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from builders.manifests import priority_class, queue
from live.api import Api, Plain, live_node, place, until
from live.muster_process import create_all
from muster.model.core import Node, Pod
from muster.model.kinds import plain
from muster.model.meta import Object
from muster.sim.inputs import usable_cluster
from muster.sim.replay.job_objects import JobObjects, class_name
from muster.sim.traces.make import Recipe, make_trace
from muster.sim.traces.table import Trace

GPU = "nvidia.com/gpu"
NODE_GPUS = 8
QUEUES = {"research": 3, "training": 2, "serving": 1}  # name → weight
CONFIG = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


@dataclass(frozen=True)
class Scale:
    """How large a run is. Times are in seconds."""

    nodes: int
    seconds: float
    mean: float  # of the durations
    shortest: float
    longest: float
    gap: float  # between two actions, that is submissions and ends of jobs
    load: float = 1.05
    most_pods: int = 8


def load_trace(scale: Scale, seed: int) -> Trace:
    """Makes the jobs: gangs of up to 8 pods with whole GPUs, in three queues and with three priorities."""
    pods = {count: weight for count, weight in {1: 7.0, 2: 5.0, 4: 5.0, 8: 3.0}.items() if count <= scale.most_pods}
    made = make_trace(
        Recipe(
            hours=scale.seconds / 3600, load=scale.load, cluster_gpus=scale.nodes * NODE_GPUS, mean_duration=scale.mean,
            sigma=0.8, pods=pods, gpus={1.0: 4.0, 2.0: 3.0, 4.0: 2.0, 8.0: 1.0},
            queues={name: float(weight) for name, weight in QUEUES.items()}, priorities={0: 5.0, 10: 3.0, 100: 2.0},
        ),
        seed,
    )  # fmt: skip
    return replace(made, duration=np.clip(made.duration, scale.shortest, scale.longest))


def cluster(count: int, trace: Trace) -> list[Plain]:
    """Returns nodes, queues and priority classes. A node has more CPU and memory than the jobs on its GPUs need."""
    offered = {GPU: str(NODE_GPUS)}
    nodes = [live_node(f"gpu-{i:02}", cpu=96, memory="1Ti", resources=offered) for i in range(count)]
    queues = [queue(name, weight=weight) for name, weight in QUEUES.items()]
    classes = [priority_class(class_name(value), value) for value in sorted(set(trace.priority.tolist()) - {0})]
    return [*nodes, *queues, *classes]


def create_cluster(api: Api, made: list[Plain]) -> None:
    """Creates them, and waits until pods may come to the nodes."""
    create_all(api, made, 8)
    nodes = [place(one) for one in made if one["kind"] == "Node"]
    until("the nodes", lambda: all(_is_ready(api.get(path)) for path in nodes), 60, 0.5)


def _is_ready(node: Plain) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    return ready and not node["spec"].get("taints")


class LiveJobs:
    """The objects of the jobs, as the replay makes them and as an API server accepts them."""

    def __init__(self, trace: Trace, made: list[Plain], namespace: str) -> None:
        self._namespace = namespace
        nodes = {key: node for key, node in usable_cluster(made).objects["Node"].items() if isinstance(node, Node)}
        self._jobs = JobObjects(trace, nodes, GPU)

    def of(self, job: int) -> list[Plain]:
        """Returns the PodGroup and the pods of a job."""
        templates = self._jobs.templates_of(job)
        pods = [self._jobs.pod_of(job, number, template) for number, template in enumerate(templates)]
        return [self._accepted(one) for one in (self._jobs.group_of(job), *pods)]

    def _accepted(self, obj: Object) -> Plain:
        found = plain(obj)
        found["metadata"]["namespace"] = self._namespace
        if isinstance(obj, Pod):
            found["metadata"]["labels"] = {"job": obj.metadata.name.rpartition("-")[0]}
            for container in found["spec"]["containers"]:
                container["image"] = "app:1"
                container["resources"]["limits"] = container["resources"]["requests"]
        return found
