"""The Kubernetes objects of a trace's jobs: a PodGroup and its pods for each, queues and priority classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from muster.engine.core.allocatable import allocatable_of
from muster.engine.core.podgroups import GROUP
from muster.model.affinity import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from muster.model.core import Container, Node, Pod, PodSpec, PriorityClass, ResourceRequirements
from muster.model.meta import Object, ObjectMeta, ResourceList
from muster.model.quantity import canonical
from muster.model.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue
from muster.sim.traces.table import FloatArray, Trace

NAMESPACE = "replay"
MODEL = "nvidia.com/gpu.product"
FRACTION = "gpu-fraction"  # KAI
SCHEDULER = "muster"


@dataclass(frozen=True, slots=True, eq=False)
class TraceTemplate:
    """What pods of equal requests share: their spec, their annotations, and their amount of each resource."""

    spec: PodSpec
    annotations: Mapping[str, str]
    amounts: FloatArray  # in internal units: cpu and GPUs in thousandths, memory in bytes


class JobObjects:
    """Makes the objects of jobs. A job without a number of pods is divided by the size of the largest node."""

    resources: tuple[str, ...]

    def __init__(self, trace: Trace, nodes: Mapping[str, Node], gpu_resource: str) -> None:
        self._trace = trace
        self._gpu = gpu_resource
        self.resources = ("cpu", "memory", gpu_resource)
        sizes = [allocatable_of(node) for node in nodes.values()]
        self._most_gpus = max((size.get(gpu_resource, 0) // 1000 for size in sizes), default=0)
        self._most_cpu = max((size.get("cpu", 0) for size in sizes), default=0)
        self._templates: dict[tuple[int, ...], TraceTemplate] = {}

    def pods_of(self, job: int) -> int:
        """Returns the number of pods of a job."""
        trace = self._trace
        if trace.pods[job] > 0:
            return int(trace.pods[job])
        for amount, most in ((int(trace.gpus[job]), self._most_gpus), (int(trace.cpu[job]), self._most_cpu)):
            if amount > 0:
                return -(-amount // most) if most > 0 else 1
        return 1

    def minimum_of(self, job: int) -> int:
        pods, minimum = self.pods_of(job), int(self._trace.minimum[job])
        return min(minimum, pods) if minimum > 0 else pods

    def templates_of(self, job: int) -> list[TraceTemplate]:
        """Returns the template of each pod of a job: what does not divide evenly goes to the first pods."""
        trace, pods = self._trace, self.pods_of(job)
        parts = [_divided(int(amounts[job]), pods) for amounts in (trace.cpu, trace.memory, trace.gpus)]
        rest = int(trace.gpu_milli[job]), int(trace.model[job]), int(trace.priority[job])
        return [self._template(cpu, memory, gpus, *rest) for cpu, memory, gpus in zip(*parts, strict=True)]

    def _template(self, cpu: int, memory: int, gpus: int, milli: int, model: int, priority: int) -> TraceTemplate:
        key = (cpu, memory, gpus, milli if gpus else 0, model if gpus else 0, priority)
        found = self._templates.get(key)
        if found is None:
            found = self._templates[key] = self._new_template(*key)
        return found

    def _new_template(self, cpu: int, memory: int, gpus: int, milli: int, model: int, priority: int) -> TraceTemplate:
        shared = 0 < milli < 1000 and gpus > 0
        asked = {"cpu": cpu, "memory": memory, self._gpu: 0 if shared else gpus * 1000}
        requests: ResourceList = {name: canonical(name, amount) for name, amount in asked.items() if amount > 0}
        spec = PodSpec(
            affinity=_one_of(self._trace.models[model]) if gpus else None,
            containers=[Container(name="main", resources=ResourceRequirements(requests=requests))],
            priority=priority,
            priority_class_name=class_name(priority),
            scheduler_name=SCHEDULER,
        )
        amounts = np.array([cpu, memory, gpus * (milli if shared else 1000)], dtype=np.float64)
        return TraceTemplate(spec, {FRACTION: str(milli / 1000)} if shared else {}, amounts)

    def group_of(self, job: int) -> PodGroup:
        trace = self._trace
        least: dict[str, int] = {}
        for template in self.templates_of(job)[: self.minimum_of(job)]:
            for name, amount in zip(self.resources, template.amounts.tolist(), strict=True):
                if amount and (name != self._gpu or FRACTION not in template.annotations):
                    least[name] = least.get(name, 0) + int(amount)
        return PodGroup(
            metadata=ObjectMeta(name=trace.names[job], namespace=NAMESPACE),
            spec=PodGroupSpec(
                min_member=self.minimum_of(job),
                queue=trace.queues[int(trace.queue[job])],
                priority_class_name=class_name(int(trace.priority[job])),
                min_resources={name: canonical(name, amount) for name, amount in least.items()},
            ),
            status=PodGroupStatus(phase="Pending"),  # as the scheduler would write it in a cycle of its own
        )

    def pod_of(self, job: int, number: int, template: TraceTemplate) -> Pod:
        name = self._trace.names[job]
        annotations = {GROUP: name, **template.annotations}
        meta = ObjectMeta(name=f"{name}-{number}", namespace=NAMESPACE, annotations=annotations)
        return Pod(metadata=meta, spec=template.spec)

    def surroundings(self, objects: Mapping[str, Mapping[str, Object]]) -> Iterator[Object]:
        """Yields the queues and priority classes that the jobs name and the cluster does not have."""
        for name in self._trace.queues:
            if name not in objects.get("Queue", {}):
                yield Queue(metadata=ObjectMeta(name=name))
        for value in np.unique(self._trace.priority).tolist():
            if value and class_name(value) not in objects.get("PriorityClass", {}):
                yield PriorityClass(metadata=ObjectMeta(name=class_name(value)), value=value)


def class_name(priority: int) -> str:
    """Returns the name of the PriorityClass of a priority; 0 has none."""
    return "" if priority == 0 else f"replay-{priority}" if priority > 0 else f"replay-minus-{-priority}"


def _divided(amount: int, parts: int) -> list[int]:
    each, rest = divmod(amount, parts)
    return [each + (i < rest) for i in range(parts)]


def _one_of(models: str) -> Affinity | None:
    if not models:
        return None
    wanted = NodeSelectorRequirement(key=MODEL, operator="In", values=models.split("|"))
    term = NodeSelectorTerm(match_expressions=[wanted])
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[term])))
