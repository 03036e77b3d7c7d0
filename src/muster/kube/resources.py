"""Maps kinds to the paths of the REST API. Every kind that is read or written has an entry; Secret has none."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from muster.model import batch, core, groups, native, scheduling, storage, topology, volcano_job
from muster.model.custom import CustomResource
from muster.model.meta import Object
from muster.workloads.workload import description_of


class Resource(NamedTuple):
    """The API group, version and plural under which a kind is served."""

    kind: type[Object]
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The name in RBAC and in messages: `podgroups.scheduling.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, key: str = "", *, namespace: str = "", sub: str = "") -> str:
        """Returns the path of the collection (of a namespace, or all), or with `key` of one object or its
        subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        name = key
        if self.kind.namespaced and key:
            namespace, slash, name = key.partition("/")
            if not slash:
                raise ValueError(f"{key!r} is no key of a {self.kind.__name__}: it has no namespace")
        parts = [root]
        if namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if sub:
            parts.append(sub)
        return "/".join(parts)


_STORAGE = "storage.k8s.io"
_VOLCANO = "scheduling.volcano.sh"
_GROUPS = "groupmanagement.kubeedge.io"

_ROWS: tuple[tuple[type[Object], str, tuple[str, ...], str], ...] = (
    (core.Node, "", ("v1",), "nodes"),
    (core.Pod, "", ("v1",), "pods"),
    (core.Namespace, "", ("v1",), "namespaces"),
    (core.ConfigMap, "", ("v1",), "configmaps"),
    (core.PriorityClass, "scheduling.k8s.io", ("v1",), "priorityclasses"),
    (core.PodDisruptionBudget, "policy", ("v1",), "poddisruptionbudgets"),
    (storage.PersistentVolume, "", ("v1",), "persistentvolumes"),
    (storage.PersistentVolumeClaim, "", ("v1",), "persistentvolumeclaims"),
    (storage.StorageClass, _STORAGE, ("v1",), "storageclasses"),
    (storage.CSINode, _STORAGE, ("v1",), "csinodes"),
    (storage.CSIDriver, _STORAGE, ("v1",), "csidrivers"),
    (storage.CSIStorageCapacity, _STORAGE, ("v1",), "csistoragecapacities"),
    (batch.Deployment, "apps", ("v1",), "deployments"),
    (batch.ReplicaSet, "apps", ("v1",), "replicasets"),
    (batch.StatefulSet, "apps", ("v1",), "statefulsets"),
    (batch.DaemonSet, "apps", ("v1",), "daemonsets"),
    (batch.ControllerRevision, "apps", ("v1",), "controllerrevisions"),
    (batch.ReplicationController, "", ("v1",), "replicationcontrollers"),
    (batch.Job, "batch", ("v1",), "jobs"),
    (batch.CronJob, "batch", ("v1",), "cronjobs"),
    (scheduling.Queue, _VOLCANO, ("v1beta1",), "queues"),
    (scheduling.PodGroup, _VOLCANO, ("v1beta1",), "podgroups"),
    (volcano_job.Job, volcano_job.Job.group, ("v1alpha1",), "jobs"),
    (volcano_job.CronJob, volcano_job.CronJob.group, ("v1alpha1",), "cronjobs"),
    # Kubernetes 1.35 serves v1alpha1, 1.36 v1alpha2, 1.37 v1beta1 and (with CompositePodGroup) v1alpha3.
    (native.NativePodGroup, native.GROUP, native.VERSIONS[:3], "podgroups"),
    (native.CompositePodGroup, native.GROUP, ("v1alpha3",), "compositepodgroups"),
    (native.NativeWorkload, native.GROUP, native.VERSIONS, "workloads"),
    # Kueue moved its Topology to v1beta1; KAI has a copy under its own group.
    (topology.Topology, "kueue.x-k8s.io", ("v1alpha1", "v1beta1"), "topologies"),
    (topology.Topology, "kai.scheduler", ("v1alpha1",), "topologies"),
    (topology.HyperNode, "topology.volcano.sh", ("v1alpha1",), "hypernodes"),
    (groups.NodeGroup, _GROUPS, ("v1alpha1",), "nodegroups"),
    (groups.PropagationPolicy, _GROUPS, ("v1alpha1",), "propagationpolicies"),
    (groups.OverridePolicy, _GROUPS, ("v1alpha1",), "overridepolicies"),
)

# Most clusters do not serve Kubernetes' own groups: one line in the log, about PodGroups, is enough.
UNREPORTED: frozenset[type[Object]] = frozenset({native.CompositePodGroup, native.NativeWorkload})

SOURCES: dict[type[Object], tuple[tuple[Resource, ...], ...]] = {}
"""Kind → its API groups → the versions to try in each; nearly always one group with one version."""

for _kind, _group, _versions, _plural in _ROWS:
    _alternatives = tuple(Resource(_kind, _group, version, _plural) for version in _versions)
    SOURCES[_kind] = (*SOURCES.get(_kind, ()), _alternatives)

_BY_API_VERSION = {
    (resource.kind, resource.api_version): resource
    for sources in SOURCES.values()
    for alternatives in sources
    for resource in alternatives
}


def sources_of(kind: type[Object]) -> tuple[tuple[Resource, ...], ...]:
    """Returns the resources of a kind; a custom resource that muster does not define declares its own."""
    if issubclass(kind, CustomResource):
        description = description_of(kind)
        versions = dict.fromkeys((kind.version, *(description.versions if description is not None else ())))
        return (tuple(Resource(kind, kind.group, version, kind.plural) for version in versions),)
    return SOURCES[kind]


def resource_of(kind: type[Object], api_version: str = "") -> Resource:
    """Returns the resource of a kind; `api_version` distinguishes kinds with several."""
    if issubclass(kind, CustomResource):
        return sources_of(kind)[0][0]
    found = _BY_API_VERSION.get((kind, api_version)) if api_version else SOURCES[kind][0][0]
    if found is None:
        raise ValueError(f"{kind.__name__} is not served as {api_version}")
    return found
