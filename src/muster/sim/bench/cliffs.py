"""Workloads outside of W1 to W10: plain and small pods, Deployments, volumes, many resource names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from muster.config.loader import DEFAULT
from muster.model.batch import ReplicaSet
from muster.model.core import Node, Pod
from muster.model.meta import LabelSelector, Object, OwnerReference
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from muster.sim.bench.work import Objects, Work
from muster.sim.bench.workloads import group, nodes, pod, queue, together

PREEMPT = DEFAULT.replace("allocate, backfill", "allocate, backfill, preempt")


def plain(node_count: int, count: int, cpu: str = "100m", memory: str = "500Mi") -> Objects:
    """Creates equal pods without a PodGroup."""
    return together(nodes(node_count), (pod(f"plain-{i:05}", cpu=cpu, memory=memory) for i in range(count)))


def small_gangs(node_count: int, count: int, size: int) -> Objects:
    """Creates gangs of small pods: many nodes have the same score."""

    def objects() -> Iterator[Object]:
        yield queue("default")
        for g in range(count):
            yield group(f"job-{g:04}", size, at=g)
            yield from (pod(f"job-{g:04}-{i}", f"job-{g:04}", cpu="100m", memory="100Mi", at=g) for i in range(size))

    return together(nodes(node_count), objects())


def owned(made: Pod, app: str) -> Pod:
    """Makes a ReplicaSet the owner of a pod."""
    made.metadata.labels["app"] = app
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=app, controller=True)
    made.metadata.owner_references = [owner]
    return made


def replica_set(app: str, replicas: int) -> ReplicaSet:
    made = ReplicaSet()
    made.metadata.name, made.metadata.namespace = app, "bench"
    made.spec.replicas, made.spec.selector = replicas, LabelSelector(match_labels={"app": app})
    return made


def deployments(node_count: int, count: int, replicas: int) -> Objects:
    """Creates the ReplicaSets of Deployments and their pods, which nodeorder spreads."""

    def objects() -> Iterator[Object]:
        for d in range(count):
            yield replica_set(f"web-{d:04}", replicas)
            for i in range(replicas):
                yield owned(pod(f"web-{d:04}-{i:04}", cpu="100m", memory="100Mi"), f"web-{d:04}")

    return together(nodes(node_count), objects())


def claimers(node_count: int, count: int) -> Objects:
    """Creates nodes full of pods of priority 0, and pods of the same priority that find no victims."""

    def objects() -> Iterator[Object]:
        for i in range(node_count * 4):
            yield pod(f"run-{i:05}", cpu="16", node=f"node-{i % node_count:05}")
        for i in range(count):
            yield pod(f"claim-{i:04}", cpu="20")

    return together(nodes(node_count), objects())


def resource_names(node_count: int) -> Objects:
    """Creates nodes with one extended resource each that no other node has, and a pod for each of them."""
    machines = nodes(node_count)
    for i, made in enumerate(machines.values()):
        assert isinstance(made, Node)
        made.status.allocatable[f"example.com/device-{i}"] = "1"
    pods = (pod(f"own-{i:05}", cpu="100m", extra=f',"example.com/device-{i}":"1"') for i in range(node_count))
    return together(machines, pods)


def claim_of(name: str, node: str = "") -> list[Object]:
    """Returns a pod with a PersistentVolumeClaim of its name, which is bound, and the volume."""
    volume, claim = PersistentVolume(), PersistentVolumeClaim()
    volume.metadata.name, claim.metadata.name, claim.metadata.namespace = f"pv-{name}", f"data-{name}", "bench"
    volume.spec.access_modes = claim.spec.access_modes = ["ReadWriteOnce"]
    volume.status.phase = claim.status.phase = "Bound"
    claim.spec.volume_name = volume.metadata.name
    claim.metadata.annotations["pv.kubernetes.io/bind-completed"] = "yes"
    spec = f'"volumes":[{{"name":"d","persistentVolumeClaim":{{"claimName":"data-{name}"}}}}],'
    return [volume, claim, pod(name, cpu="100m", spec=spec, node=node)]


def volumes(node_count: int, count: int) -> Objects:
    """Creates pods with one bound PersistentVolumeClaim each."""
    return together(nodes(node_count), (one for i in range(count) for one in claim_of(f"vol-{i:05}")))


CLIFFS: tuple[Work, ...] = (
    Work(
        "plain", "5,000 nodes × 10,000 plain pods, built-in configuration", partial(plain, 5000, 10_000), DEFAULT,
        bound=10_000, floors={"seconds": 0.30},
    ),
    Work(
        "small", "5,000 nodes × 100 gangs of 100 pods of 100m", partial(small_gangs, 5000, 100, 100),
        bound=10_000, floors={"decide_s": 0.11},
    ),
    Work(
        "replicas", "5,000 nodes × 10 Deployments of 1,000 pods", partial(deployments, 5000, 10, 1000), DEFAULT,
        bound=10_000, floors={"decide_s": 1.0},
    ),
    Work(
        "services", "5,000 nodes × 4,000 Deployments of 2 pods", partial(deployments, 5000, 4000, 2), DEFAULT,
        bound=8000, floors={"peak_rss_mib": 250},
    ),
    Work(
        "claimers", "1,000 full nodes × 200 pods that find nobody to evict", partial(claimers, 1000, 200), PREEMPT,
        floors={"decide_s": 0.1},
    ),
    Work(
        "resources", "5,000 nodes with one extended resource each, and its pod", partial(resource_names, 5000), DEFAULT,
        bound=5000, floors={"seconds": 1.2, "peak_rss_mib": 300},
    ),
    Work(
        "volumes", "5,000 nodes × 5,000 pods with one claim each", partial(volumes, 5000, 5000), DEFAULT,
        bound=5000, floors={"seconds": 0.8},
    ),
)  # fmt: skip
