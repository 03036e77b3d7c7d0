"""Objects of tests of the live scheduler, and a cluster of them."""

from __future__ import annotations

from collections.abc import Iterable

from builders.manifests import Manifest, tables
from builders.node_groups import thing
from builders.small_cluster import member_pod
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import (
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
)
from muster.model.meta import LabelSelector, Object, ObjectMeta
from muster.scheduler.journal import journal_of
from muster.workloads import MIN_MEMBER

EVICTS = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""

# Volcano's rules do not ask budgets, so that the scheduler drops evictions afterwards.
EVICTS_BY_VOLCANO = f"compatibility: volcano\n{EVICTS}"


def waiting(name: str, group: str = "", on: str = "", cpu: str = "1", priority: int = 0) -> Pod:
    """A pod of muster's in the namespace d; with `on` it runs there."""
    made = member_pod(name, group, on, cpu=cpu)
    assert isinstance(made, Pod)
    if not group:
        made.metadata.annotations = {}
    made.metadata.uid = f"uid-{name}"
    made.metadata.labels = {"app": group or name}
    made.spec.scheduler_name = "muster"
    made.spec.priority = priority
    made.spec.termination_grace_period_seconds = 1
    if on:
        made.status.phase = "Running"
    return made


def priority_class(name: str, value: int) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value)


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=f"keep-{app}", namespace="d"),
        spec=PodDisruptionBudgetSpec(min_available=1, selector=LabelSelector(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def replica_set(name: str, members: int, size: int = 0) -> Object:
    """A ReplicaSet in the namespace d whose pods are a gang of at least `members`; it has `size` pods, or so many."""
    meta = {"namespace": "d", "uid": f"uid-{name}", "annotations": {MIN_MEMBER: str(members)}}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"schedulerName": "muster", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    spec = {"replicas": size or members, "selector": {"matchLabels": {"app": name}}, "template": template}
    return thing("apps/v1", "ReplicaSet", name, meta, spec=spec)


def open_journals(pods: Iterable[Pod]) -> list[str]:
    """The pods with a journal of a commit that was not finished."""
    known = list(pods)
    pending = [pod.metadata for pod in known if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]
    carried = [(pod, journal_of(pod)) for pod in known if pod.spec.node_name]
    return [
        pod.metadata.name for pod, journal in carried
        if journal is not None and any(journal.same(meta.name, meta.uid) for meta in pending)
    ]  # fmt: skip


def cluster_of(*objects: Object | Manifest) -> EmbeddedCluster:
    return EmbeddedCluster(tables(objects), 1000.0)


def bound(cluster: EmbeddedCluster) -> dict[str, str]:
    """Pod → its node, of those that have one."""
    return {p.metadata.name: p.spec.node_name for p in cluster.store.of(Pod).values() if p.spec.node_name}
