"""The workloads: clusters and pods as objects in memory, each pod decoded on its own as an API server's would be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import msgspec

from muster.model.core import Node, Pod, PriorityClass
from muster.model.meta import Object, key
from muster.model.scheduling import PodGroup, Queue
from muster.model.topology import Topology, TopologyLevel, TopologySpec
from muster.sim.bench.work import ALLOCATE, TIERS, Objects, Work

_node = msgspec.json.Decoder(Node)
_pod = msgspec.json.Decoder(Pod)


def nodes(
    count: int, cpu: int = 64, memory: str = "256Gi", labels: Callable[[int], dict[str, str]] | None = None
) -> dict[str, Object]:
    made: dict[str, Object] = {}
    for i in range(count):
        name = f"node-{i:05}"
        more = "".join(f',"{k}":"{v}"' for k, v in (labels(i) if labels else {}).items())
        offer = f'{{"cpu":"{cpu}","memory":"{memory}","pods":"110"}}'
        text = (
            f'{{"metadata":{{"name":"{name}","labels":{{"kubernetes.io/hostname":"{name}"{more}}}}},'
            f'"status":{{"allocatable":{offer}}}}}'
        )
        made[name] = _node.decode(text.encode())
    return made


def pod(
    name: str, group: str = "", cpu: str = "1", memory: str = "2Gi", *,
    extra: str = "", node: str = "", at: int = 0, spec: str = "", notes: str = "",
) -> Pod:  # fmt: skip
    """Decodes a pod; `extra` are more requests, `notes` more annotations and `spec` more fields, as JSON text."""
    notes = f'"annotations":{{"scheduling.k8s.io/group-name":"{group}"{notes}}},' if group else ""
    place = f'"nodeName":"{node}",' if node else ""
    phase = "Running" if node else "Pending"
    text = (
        f'{{"metadata":{{"name":"{name}","namespace":"bench","uid":"{name}",{notes}"labels":{{"app":"bench"}},'
        f'"creationTimestamp":"2026-01-01T00:{at // 60 % 60:02}:{at % 60:02}Z"}},'
        f'"spec":{{"schedulerName":"muster",{place}{spec}"containers":[{{"name":"main","image":"app:1","resources":'
        f'{{"requests":{{"cpu":"{cpu}","memory":"{memory}"{extra}}}}}}}]}},"status":{{"phase":"{phase}"}}}}'
    )
    return _pod.decode(text.encode())


def group(
    name: str, least: int, queue: str = "default", phase: str = "Pending", at: int = 0, priority: str = ""
) -> PodGroup:
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = name, "bench"
    made.metadata.creation_timestamp = f"2026-01-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z"
    made.spec.min_member, made.spec.queue, made.spec.priority_class_name = least, queue, priority
    made.status.phase = phase
    return made


def queue(name: str, weight: int = 1) -> Queue:
    made = Queue()
    made.metadata.name, made.spec.weight, made.status.state = name, weight, "Open"
    return made


def together(node_objects: dict[str, Object], objects: Iterator[Object]) -> Objects:
    found: Objects = {"Node": node_objects}
    for obj in objects:
        found.setdefault(type(obj).__name__, {})[key(obj)] = obj
    return {kind: dict(sorted(group_.items())) for kind, group_ in found.items()}


def gangs(
    node_count: int, count: int, size: int, least: int | None = None, *, queues: int = 1, own: bool = False
) -> Objects:
    """Creates gangs of equal pods; with `own` each gang has another request."""

    def objects() -> Iterator[Object]:
        for q in range(queues):
            yield queue("default" if queues == 1 else f"q{q}")
        for g in range(count):
            name = f"job-{g:04}"
            yield group(name, size if least is None else least, "default" if queues == 1 else f"q{g % queues}", at=g)
            for i in range(size):
                yield pod(f"{name}-worker-{i}", name, cpu=f"{900 + g}m" if own else "1", at=g % 3600)

    return together(nodes(node_count), objects())


def singles(node_count: int, count: int) -> Objects:
    """Creates single pods with different requests."""

    def objects() -> Iterator[Object]:
        yield queue("default")
        for i in range(count):
            yield pod(f"single-{i:05}", cpu=f"{500 + i % 977}m", memory=f"{1024 + i}Mi", at=i % 3600)

    return together(nodes(node_count), objects())


def spread(node_count: int, count: int, *, hostname: bool) -> Objects:
    """Creates pods with topology spread over zones, or with anti-affinity by host name."""
    selector = '"labelSelector":{"matchLabels":{"app":"bench"}}'
    rule = (
        f'"affinity":{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{{selector},'
        '"topologyKey":"kubernetes.io/hostname"}]}},'
        if hostname
        else f'"topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone",'
        f'"whenUnsatisfiable":"DoNotSchedule",{selector}}}],'
    )

    def objects() -> Iterator[Object]:
        yield queue("default")
        for i in range(count):
            yield pod(f"spread-{i:05}", spec=rule, at=i % 3600)

    return together(nodes(node_count, labels=lambda i: {"topology.kubernetes.io/zone": f"zone-{i % 10}"}), objects())


def full(node_count: int, claims: int, size: int, *, across: bool, protected: bool = False) -> Objects:
    """Creates a cluster full of running pods in 640 groups of 100, and gangs that claim their capacity.

    With `protected` an annotation of each running pod forbids its eviction.
    """
    forbidden = ',"volcano.sh/preemptable":"false"' if protected else ""

    def objects() -> Iterator[Object]:
        for name, value in (("low", 10), ("high", 1000)):
            made = PriorityClass(value=value)
            made.metadata.name = name
            yield made
        yield queue("a", 1)
        yield queue("b", 3)
        count = node_count * 64 // 100
        for g in range(count):
            yield group(f"run-{g:04}", 1, "a", "Running", g % 3600, "low")
        for i in range(node_count * 64):
            name, node = f"run-{i % count:04}", f"node-{i % node_count:05}"
            member = f"{name}-worker-{i // count}"
            yield pod(member, name, node=node, at=i % 3600, spec='"priority":10,', notes=forbidden)
        for c in range(claims):
            yield group(f"claim-{c:03}", size, "b" if across else "a", "Inqueue", c, "high")
            for i in range(size):
                yield pod(f"claim-{c:03}-worker-{i}", f"claim-{c:03}", spec='"priority":1000,')

    return together(nodes(node_count), objects())


def chips(node_count: int, small: int, whole: int) -> Objects:
    """Creates boards of eight chips in two rings, jobs of one pod that request 1, 2 and 4 chips in turn, then jobs of
    8."""
    free = ",".join(f"Ascend910-{i}" for i in range(8))
    boards = nodes(node_count)
    for made in boards.values():
        assert isinstance(made, Node)
        made.metadata.annotations["huawei.com/Ascend910"] = free
        made.status.allocatable["huawei.com/Ascend910"] = "8"

    def objects() -> Iterator[Object]:
        yield queue("default")
        for i in range(small + whole):
            want = (1, 2, 4)[i % 3] if i < small else 8
            yield group(f"chips-{i:05}", 1, at=i)
            yield pod(f"chips-{i:05}-0", f"chips-{i:05}", extra=f',"huawei.com/Ascend910":"{want}"', at=i % 3600)

    return together(boards, objects())


GPU = "nvidia.com/gpu"


def racks(shape: tuple[int, ...], count: int, size: int, gpus: int, required: str, preferred: str = "") -> Objects:
    """Creates nodes of 8 GPUs in a tree (zones, blocks, racks, nodes of a rack), and gangs that must run in one
    domain."""
    keys = ("zone", "block", "rack")[-len(shape) + 1 :]

    def labels(i: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for level, width in zip(reversed(keys), reversed(shape), strict=False):
            i //= width
            found[f"topology/{level}"] = f"{level}-{i}"
        return found

    machines = nodes(prod(shape), labels=labels)
    for made in machines.values():
        assert isinstance(made, Node)
        made.status.allocatable[GPU] = "8"
    notes = {"kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": f"topology/{required}"}
    if preferred:
        notes["kai.scheduler/topology-preferred-placement"] = f"topology/{preferred}"

    def objects() -> Iterator[Object]:
        tree = Topology(spec=TopologySpec(levels=[TopologyLevel(node_label=f"topology/{key}") for key in keys]))
        tree.metadata.name = "tree"
        yield tree
        yield queue("default")
        for g in range(count):
            name = f"job-{g:04}"
            made = group(name, size, at=g)
            made.metadata.annotations.update(notes)
            yield made
            for i in range(size):
                yield pod(f"{name}-worker-{i}", name, extra=f',"{GPU}":"{gpus}"', at=g % 3600)

    return together(machines, objects())


_FULL = "1,000 nodes full with 64,000 running pods of queue a"

WORKS: tuple[Work, ...] = (
    Work(
        "W1", "1,000 nodes × 100 gangs of 100", partial(gangs, 1000, 100, 100),
        bound=10_000, floors={"seconds": 0.08},
    ),
    Work(
        "W2", "5,000 nodes × 100 gangs of 100", partial(gangs, 5000, 100, 100),
        bound=10_000, floors={"seconds": 0.09},
    ),
    Work(
        "W3", "10,000 nodes × 500 gangs of 100", partial(gangs, 10_000, 500, 100),
        bound=50_000, floors={"seconds": 0.42, "peak_rss_mib": 230},
    ),
    Work(
        "W4", "1,000 nodes of 8 GPUs in 50 racks of 20; 100 gangs of 8 × 8 GPUs, each in one rack",
        partial(racks, (50, 20), 100, 8, 8, "rack"), ALLOCATE + "  - name: topology\n",
        bound=800, floors={"seconds": 0.035},
    ),
    Work(
        "W4b", "10,000 nodes of 8 GPUs in 5 × 10 × 10 racks of 20; 1,000 gangs of 64, required block, preferred rack",
        partial(racks, (5, 10, 10, 20), 1000, 64, 1, "block", "rack"), ALLOCATE + "  - name: topology\n",
        bound=64_000, floors={"seconds": 0.8},
    ),
    Work(
        "W5r", f"{_FULL}; queue b wants 20 gangs of 50 by reclaim", partial(full, 1000, 20, 50, across=True),
        'actions: "enqueue, allocate, reclaim"' + TIERS, evicted=1000, floors={"seconds": 0.33, "decide_s": 0.06},
    ),
    Work(
        "W5p", f"{_FULL}; queue a itself wants them by priority, preempt", partial(full, 1000, 20, 50, across=False),
        'actions: "enqueue, allocate, preempt"' + TIERS, evicted=1000, floors={"seconds": 0.41, "decide_s": 0.1},
    ),
    Work(
        "W5x", f"{_FULL}, none of which may be evicted", partial(full, 1000, 20, 50, across=True, protected=True),
        'actions: "enqueue, allocate, reclaim"' + TIERS, floors={"decide_s": 0.02},
    ),
    Work(
        "W6", "5,000 nodes × 5,000 single pods, no two requests equal", partial(singles, 5000, 5000),
        bound=5000, floors={"seconds": 0.75, "peak_rss_mib": 200},
    ),
    Work(
        "W7", "1,000 boards of 8 chips: 3,000 jobs of 1, 2 and 4, then 200 of 8 (125 fit)",
        partial(chips, 1000, 3000, 200), ALLOCATE + "  - name: topology910\n", bound=3125, floors={"seconds": 0.35},
    ),
    Work(
        "W8", "elastic: 1,000 nodes, 100 jobs × 100, minMember 1", partial(gangs, 1000, 100, 100, 1),
        bound=10_000, floors={"seconds": 0.2},
    ),
    Work(
        "W8b", "elastic, with a different request per job", partial(gangs, 1000, 100, 100, 1, own=True),
        bound=10_000, floors={"seconds": 0.65},
    ),
    Work(
        "W9", "5,000 nodes × 2,500 gangs of 4 in two queues", partial(gangs, 5000, 2500, 4, queues=2),
        bound=10_000, floors={"seconds": 0.2},
    ),
    Work(
        "W10s", "5,000 nodes × 5,000 pods with zone topology spread", partial(spread, 5000, 5000, hostname=False),
        bound=5000, floors={"seconds": 0.5},
    ),
    Work(
        "W10a", "5,000 nodes × 5,000 pods with hostname anti-affinity", partial(spread, 5000, 5000, hostname=True),
        bound=5000, floors={"seconds": 0.25},
    ),
)  # fmt: skip
