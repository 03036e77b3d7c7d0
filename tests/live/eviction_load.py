"""The load of the eviction churn: which gangs and plain pods arrive when, computed from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate

from builders.manifests import group, priority_class, queue
from live.api import Plain, live_node
from live.muster_process import muster_pod

LOAD = 1.3  # of the capacity
NODE_CPUS = 8
QUEUES = {"research": 3, "training": 2, "serving": 2}
BORROWERS = ("research", "training")  # they fill the cluster before the other queue has any demand
LOW, MIDDLE, HIGH = "churn-low", "churn-middle", "churn-high"
PRIORITIES = {LOW: 10, MIDDLE: 100, HIGH: 1000}
GANG_LABEL = "live.muster.test/gang"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
# KWOK removes a terminating pod after this time.
_STOPS = {"live.muster.test/stops-after": "1s"}


@dataclass(frozen=True)
class Scale:
    """How large a run is. Plain pods run for ten times the interval in which they arrive."""

    nodes: int
    gangs: int
    seconds: float
    plain_every: float

    @property
    def cpus(self) -> int:
        return self.nodes * NODE_CPUS


@dataclass(frozen=True)
class Gang:
    name: str
    arrives: float
    runs_for: float  # seconds, from the time at which it has its minimum
    size: int
    minimum: int
    cpu: int  # of each pod
    queue: str
    priority: str

    def group(self, namespace: str) -> Plain:
        return group(
            self.name, self.queue, namespace=namespace, minMember=self.minimum, priorityClassName=self.priority
        )

    def pod(self, namespace: str, name: str) -> Plain:
        return muster_pod(
            namespace, name, self.name, str(self.cpu), annotations=_STOPS, labels={GANG_LABEL: self.name},
            priorityClassName=self.priority,
        )  # fmt: skip


@dataclass(frozen=True)
class Single:
    """A plain pod of the highest priority."""

    name: str
    arrives: float
    runs_for: float
    queue: str

    def pod(self, namespace: str) -> Plain:
        annotations = {**_STOPS, QUEUE_NAME: self.queue}
        return muster_pod(namespace, self.name, annotations=annotations, labels={}, priorityClassName=HIGH)


def gangs(scale: Scale, seed: int) -> list[Gang]:
    """Gangs that fill the cluster at the start, in two queues that borrow; then 130 % of the capacity in all queues."""
    dice = random.Random(seed)
    sizes = [dice.randint(8, 64) for _ in range(scale.gangs)]
    cpus = [dice.choice((1, 1, 2)) for _ in range(scale.gangs)]
    before = [0, *accumulate(size * cpu for size, cpu in zip(sizes, cpus, strict=True))]
    first = sum(total <= scale.cpus for total in before[1:])  # so many fit into the empty cluster
    rest = before[-1] - before[first]
    assert rest > 0, f"{scale.gangs} gangs do not fill {scale.nodes} nodes"
    mean = LOAD * scale.cpus * scale.seconds / rest
    made = []
    for i, (size, cpu) in enumerate(zip(sizes, cpus, strict=True)):
        fills = i < first
        made.append(Gang(
            name=f"g{i}",
            arrives=0.0 if fills else scale.seconds * (before[i] - before[first]) / rest,
            runs_for=mean * (dice.uniform(0.2, 1.0) if fills else dice.uniform(0.5, 1.5)),
            size=size,
            minimum=size if i % 2 else max(size // 2, 2),
            cpu=cpu,
            queue=dice.choice(BORROWERS) if fills else _any_queue(dice),
            priority=dice.choices((LOW, MIDDLE), (3, 2))[0],
        ))  # fmt: skip
    return made


def singles(scale: Scale, seed: int) -> list[Single]:
    dice = random.Random(seed + 1)
    every = scale.plain_every
    return [
        Single(f"p{i}", every * (i + 1), 10 * every, _any_queue(dice)) for i in range(int(scale.seconds / every) - 1)
    ]


def cluster(scale: Scale) -> list[Plain]:
    """Nodes, queues and priority classes."""
    nodes = [live_node(f"churn-{i:03}", cpu=NODE_CPUS) for i in range(scale.nodes)]
    classes = [priority_class(name, value) for name, value in PRIORITIES.items()]
    return [*nodes, *classes, *(queue(name, weight=weight) for name, weight in QUEUES.items())]


def _any_queue(dice: random.Random) -> str:
    return dice.choices(list(QUEUES), list(QUEUES.values()))[0]
