"""The workload controllers: Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets, Jobs, and
Volcano's Jobs.

They follow the store's events and reconcile the workloads whose pods changed, in the order of their names.
CronJobs stand as they are: a simulation has no wall clock to run them by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from muster.cluster import daemonsets, deployments, jobs, statefulsets, volcano_jobs
from muster.cluster.memory import MemoryStore
from muster.cluster.owners import Owned, OwnerKey, Owners
from muster.cluster.volume_controller import make_ephemeral_claims
from muster.groups.applications import owner_kind
from muster.model import volcano_job
from muster.model.batch import (
    APPLICATION_KINDS,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from muster.model.core import Node, Pod
from muster.model.custom import ConfiguredApplication, custom_kinds
from muster.model.meta import Object, controller
from muster.model.scheduling import PodGroup
from muster.store import ApiError, Change, Severity, WatchEvent
from muster.store.event_reasons import EventReason

if TYPE_CHECKING:
    from muster.cluster.described_workloads import DescribedWorkloads

T = TypeVar("T", bound=Object)

# The simulator starts no CronJobs: their Jobs come with the manifests.
_ALL: tuple[type[Object], ...] = (*(kind for kind in APPLICATION_KINDS if kind is not CronJob), volcano_job.Job)
_KINDS = tuple(sorted(_ALL, key=lambda kind: kind.__name__))


class Workloads:
    """All workload controllers of the embedded cluster; `run` reconciles until nothing changes.

    With `all_pods`, Volcano's Jobs have all their pods before the scheduler has admitted them.
    """

    def __init__(self, store: MemoryStore, *, all_pods: bool = False) -> None:
        self._store = store
        self._all_pods = all_pods
        self._owners = Owners(store)
        self._sets = Owned(store, ReplicaSet)
        # The kinds that are read by description; objects of further kinds do not come later.
        described = [kind for kind in custom_kinds(store.everything()) if issubclass(kind, ConfiguredApplication)]
        kinds = (*_KINDS, *described)
        self._described = _operators(self._owners, described) if described else None
        self._watch = store.watch(str(store.version), (*kinds, Pod, Node, PodGroup))
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._dirty: dict[OwnerKey, None] = {(k.__name__, key): None for k in kinds for key in store.of(k)}
        for _, pod in sorted(store.of(Pod).items()):
            if pod.spec.volumes:
                make_ephemeral_claims(store, pod)

    def run(self) -> bool:
        """Reconciles every workload whose pods, template or nodes changed; returns whether anything changed."""
        before = self._store.version
        while True:
            for event in self._watch.take():
                self._note(event)
            if not self._dirty:
                return self._store.version != before
            dirty, self._dirty = self._dirty, {}
            for kind, key in sorted(dirty):
                self._reconcile(kind, key)

    def _note(self, event: WatchEvent) -> None:
        if event.kind == "Node":
            self._dirty.update({("DaemonSet", key): None for key in self._store.of(DaemonSet)})
            return
        if event.kind == "PodGroup":
            # A Job of Volcano has no pods until its group is admitted.
            made_by = controller(event.object.metadata) if event.object.metadata.owner_references else None
            if made_by is not None:
                self._dirty[owner_kind(made_by), f"{event.object.metadata.namespace}/{made_by.name}"] = None
            return
        if event.kind == "Pod":
            owner = self._owners.pods.follow(event)
            if event.change == Change.ADDED:
                self._on_new_pod(event.object, owner)
        else:
            owner = self._sets.follow(event) if event.kind == "ReplicaSet" else None
            self._dirty[event.kind, event.key] = None
        if owner is not None and owner[0] in self._kinds:
            self._dirty[owner] = None
            if owner[0] == "ReplicaSet":
                self._above(owner[1])

    def _above(self, key: str) -> None:
        """A change of a ReplicaSet's pods is one of its Deployment's, too."""
        replica_set = self._store.of(ReplicaSet).get(key)
        if replica_set is None:
            return
        for owner in replica_set.metadata.owner_references:
            if owner.controller and owner.kind == "Deployment":
                self._dirty["Deployment", f"{replica_set.metadata.namespace}/{owner.name}"] = None

    def _on_new_pod(self, pod: Object, owner: OwnerKey | None) -> None:
        if isinstance(pod, Pod) and pod.spec.volumes:
            make_ephemeral_claims(self._store, pod)
        if owner is None:
            # Somebody may want to adopt it.
            prefix = f"{pod.metadata.namespace}/"
            for kind in _KINDS:
                self._dirty.update({(kind.__name__, k): None for k in self._store.of(kind) if k.startswith(prefix)})

    def _reconcile(self, kind: str, key: str) -> None:
        owner = self._store.of(self._kinds[kind]).get(key) if kind in self._kinds else None
        if owner is None:
            return
        try:
            self._controller(owner)()
        except (ApiError, ValueError) as error:
            # One bad workload never stops the rest.
            self._store.event(owner, Severity.WARNING, EventReason.FAILED_CREATE, str(error))

    def _controller(self, owner: Object) -> Callable[[], None]:
        owners = self._owners
        match owner:
            case ReplicaSet() | ReplicationController():
                return lambda: deployments.reconcile_replicas(owners, owner)
            case Deployment():
                return lambda: deployments.reconcile(owners, self._sets, owner)
            case StatefulSet():
                return lambda: statefulsets.reconcile(owners, owner)
            case DaemonSet():
                return lambda: daemonsets.reconcile(owners, owner)
            case Job():
                return lambda: jobs.reconcile(owners, owner)
            case ConfiguredApplication() if self._described is not None:
                described = self._described
                return lambda: described.reconcile(owner)
            case volcano_job.Job():
                return lambda: volcano_jobs.reconcile(owners, owner, all_pods=self._all_pods)
        raise ValueError(f"{type(owner).__name__} makes no pods")


def _operators(owners: Owners, kinds: list[type[ConfiguredApplication]]) -> DescribedWorkloads:
    from muster.cluster.described_workloads import DescribedWorkloads  # few inputs need it

    return DescribedWorkloads(owners, kinds)
