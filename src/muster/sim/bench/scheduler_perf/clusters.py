"""The clusters of the cases: nodes, pods that run before, the measured pods, and what changes meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from muster.model.batch import ReplicaSet
from muster.model.core import Node, Pod
from muster.model.meta import LabelSelector, Object, key
from muster.sim.bench.cluster_run import Changes, Cluster
from muster.sim.bench.scheduler_perf.templates import (
    DEFAULT_REQUEST,
    HOST,
    INIT,
    MEASURED,
    RACK,
    TERMINATING,
    bound_volume,
    claim_spec,
    csi_node,
    member_spec,
    native_group,
    node,
    node_affinity,
    node_name,
    nodes,
    owner,
    pod,
    running,
    waiting,
)
from muster.sim.bench.work import Objects

BIG_REQUEST = '"cpu":"9","memory":"500Mi"'  # of pod-high-priority-large-cpu: fits no node
HIGH = '"priority":10,'


def cluster(machines: Iterable[Node], *others: Iterable[Object], rounds: list[Changes] | None = None) -> Cluster:
    tables: Objects = {"Node": {one.metadata.name: one for one in machines}, "Pod": {}}
    for one in chain(*others):
        tables.setdefault(type(one).__name__, {})[key(one)] = one
    return Cluster({kind: dict(sorted(some.items())) for kind, some in tables.items()}, rounds or [])


def basic(node_count: int, init: int, measured: int, zones: tuple[str, str] = ("", ""), **fields: str) -> Cluster:
    """Returns running and measured pods of one template; `zones`: a label of the nodes and its values, by comma."""
    label, values = zones
    machines = nodes(node_count, label, tuple(values.split(",")))
    return cluster(machines, running(init, node_count, **fields), waiting(measured, **fields))


def beside_plain(node_count: int, init: int, measured: int, zones: tuple[str, str], **fields: str) -> Cluster:
    """The running pods are pod-default, the measured ones of the template."""
    label, values = zones
    machines = nodes(node_count, label, tuple(values.split(",")))
    return cluster(machines, running(init, node_count), waiting(measured, **fields))


def daemon_set(node_count: int, measured: int) -> Cluster:
    """All pods have to run on one node by its name."""
    name = "scheduler-perf-node"
    spec = node_affinity("matchFields", "metadata.name", name)
    machines = chain(nodes(node_count), [node(name, pods=90_000)])
    return cluster(machines, waiting(measured, request="", spec=spec))


def mixed_churn(node_count: int, measured: int, count: int) -> Cluster:
    """The measured pods come in `count` parts; between them a node and a pod that fits nowhere are recreated."""
    pods = list(waiting(measured))
    size = measured // count
    parts = [pods[i : i + size] for i in range(0, measured, size)]
    extra = node("churn-node")

    def big() -> Pod:
        return pod("churn-pod", request=BIG_REQUEST, spec=HIGH)

    rounds: list[Changes] = []
    for part in parts[1:]:
        rounds.append(
            [
                ("Node", "churn-node", None), ("Node", "churn-node", extra),
                ("Pod", f"{MEASURED}/churn-pod", None), ("Pod", f"{MEASURED}/churn-pod", big()),
                *(("Pod", key(one), one) for one in part),
            ]
        )  # fmt: skip
    return cluster(chain(nodes(node_count), [extra]), [big()], parts[0], rounds=rounds)


def claims(node_count: int, init: int, request: str, measured: int, big: int, big_request: str) -> Cluster:
    """Returns pod-default pods beside `big` pods of high priority."""
    wanting = (pod(f"high-{i:03}", request=big_request, spec=HIGH) for i in range(big))
    return cluster(nodes(node_count), running(init, node_count, request=request), waiting(measured), wanting)


def extended_resources(count: int) -> Cluster:
    """Every node offers a resource of its own, which one pod requests."""
    machines = (node(node_name(i), extra=f',"foo.com/bar-{i}":"1"') for i in range(count))
    pods = (pod(f"pod-{i:05}", request=f'{DEFAULT_REQUEST},"foo.com/bar-{i}":"1"') for i in range(count))
    return cluster(machines, pods)


def gated(gates: int, terminating: int, measured: int) -> Cluster:
    """Pods behind a scheduling gate and pods that are being deleted are there meanwhile."""
    name = "scheduler-perf-node"
    gate = '"schedulingGates":[{"name":"test.k8s.io/hold"}],'
    behind_gate = (pod(f"gated-{i:05}", INIT, request="", spec=gate) for i in range(gates))
    deleted = (pod(f"terminating-{i:05}", INIT, request="", place=name, meta=TERMINATING) for i in range(terminating))
    return cluster([node(name, pods=90_000)], behind_gate, deleted, waiting(measured, request=""))


def inclusion_policy(normal: int, tainted: int, measured: int, spec: str, labels: str) -> Cluster:
    """Nodes with a taint do not count for the spread constraint by host name."""
    machines = chain(nodes(normal), (node(f"taint-node-{i:05}", taint="foo") for i in range(tainted)))
    return cluster(machines, waiting(measured, spec=spec, labels=labels))


def one_service(node_count: int, init: int, measured: int, zones: tuple[str, str]) -> Cluster:
    """kube-scheduler spreads the pods of a Service; muster those of a ReplicaSet, which is used instead."""
    made = ReplicaSet()
    made.metadata.name, made.metadata.namespace = "service", MEASURED
    made.spec.replicas, made.spec.selector = measured, LabelSelector(match_labels={"app": "service"})
    label, values = zones
    machines = nodes(node_count, label, tuple(values.split(",")))
    pods = waiting(measured, labels='"app":"service"', meta=owner("service"))
    return cluster(machines, [made], running(init, node_count), pods)


def volumes(node_count: int, init: int, measured: int, kind: str) -> Cluster:
    """Returns a cluster with one bound PersistentVolumeClaim per pod: csi, in-tree, or migrated from in-tree to CSI."""
    in_tree = kind != "csi"

    def objects() -> Iterator[Object]:
        if kind != "in-tree":
            yield from (csi_node(node_name(i), migrated=kind == "migrated") for i in range(node_count))
        for i in range(init):
            yield from bound_volume(f"init-{i:05}", INIT, in_tree=in_tree)
            yield pod(f"init-{i:05}", INIT, place=node_name(i % node_count), spec=claim_spec(f"pvc-init-{i:05}"))
        for i in range(measured):
            yield from bound_volume(f"{i:05}", MEASURED, in_tree=in_tree)
            yield pod(f"pod-{i:05}", spec=claim_spec(f"pvc-{i:05}"))

    return cluster(nodes(node_count), objects())


# --- native groups

GANG_REQUEST = '"cpu":"100m","memory":"100Mi"'


def gangs(
    count: int, size: int, request: str = GANG_REQUEST, *, topology: str = "", priority: int = 0, spec: str = ""
) -> Iterator[Object]:
    """Returns native PodGroups whose minimum is their size, and their pods."""
    for g in range(count):
        name = f"gang-{g:04}"
        yield native_group(name, MEASURED, size, key=topology, priority=priority)
        fields = member_spec(name, priority) + spec
        yield from (pod(f"{name}-{i:04}", request=request, spec=fields) for i in range(size))


def native_gangs(node_count: int, count: int, size: int) -> Cluster:
    return cluster(nodes(node_count), gangs(count, size))


def native_racks(node_count: int, per_rack: int, count: int, size: int) -> Cluster:
    """Every gang must be in one rack."""
    machines = (node(node_name(i), {RACK: f"rack-{i // per_rack:03}"}) for i in range(node_count))
    return cluster(machines, gangs(count, size, topology=RACK))


TOP = 9_999_999


def gang_preempts_pods(node_count: int, init: int, count: int, size: int, *, anchors: bool = False) -> Cluster:
    """Gangs that need whole nodes, on each of which ten pods of low priority run.

    With `anchors` a pod of the highest priority is on each node, and the gangs' pods have an affinity to such a pod on
    their node.
    """
    low = running(init, node_count, request='"cpu":"40m","memory":"100Mi"', spec='"priority":0,')
    if not anchors:
        return cluster(nodes(node_count), low, gangs(count, size, '"cpu":"3970m","memory":"100Mi"', priority=TOP))
    term = f'"labelSelector":{{"matchLabels":{{"app":"anchor"}}}},"topologyKey":"{HOST}","namespaces":["{INIT}"]'
    spec = f'"affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{{term}}}]}}}},'
    fixed = (
        pod(
            f"anchor-{i:03}", INIT, request='"cpu":"10m","memory":"10Mi"', labels='"app":"anchor"',
            place=node_name(i), spec=f'"priority":{TOP},',
        )
        for i in range(node_count)
    )  # fmt: skip
    wanting = gangs(count, size, '"cpu":"3970m","memory":"100Mi"', priority=TOP, spec=spec)
    return cluster(nodes(node_count), low, fixed, wanting)


def gang_preempts_gangs(node_count: int, low: tuple[int, int], high: tuple[int, int]) -> Cluster:
    """Gangs of low priority fill the nodes evenly; gangs of high priority need most of a node for each pod."""

    def before() -> Iterator[Object]:
        groups, size = low
        for g in range(groups):
            yield native_group(f"low-{g:03}", INIT, size, priority=1000)
            for i in range(size):
                place = node_name((g * size + i) % node_count)
                fields = member_spec(f"low-{g:03}", 1000)
                yield pod(f"low-{g:03}-{i:03}", INIT, request='"cpu":"600m","memory":"100Mi"', place=place, spec=fields)

    return cluster(nodes(node_count), before(), gangs(*high, '"cpu":"3500m","memory":"100Mi"', priority=TOP))
