"""Finds kinds and fields in manifests that neither the model nor Kubernetes knows.

The model has the fields that muster reads. `OTHERS` lists the further fields of the same types (Kubernetes 1.36, and
names of older releases that are still in use), so that a valid manifest is never reported. The API server refuses a
name that is in neither list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec.inspect as inspect
from msgspec import Struct

from muster.config.names import nearest
from muster.model import batch, core, kinds, pod, scheduling, storage
from muster.model.finding import Severity
from muster.model.meta import Object, ObjectMeta
from muster.model.pod import ResourceRequirements
from muster.model.shape import Unknown, below

__all__ = [
    "Fields",
    "fields_of",
    "place_of",
    "unknown_names",
    "UnknownName",
    "missing_kind",
    "unknown_fields",
    "unknown_kind",
]

_COPIED = "apiVersion kind status"
_DISK = "fsType partition"
_SOURCES = (
    "azureDisk azureFile cephfs cinder fc flexVolume flocker glusterfs hostPath nfs photonPersistentDisk "
    "portworxVolume quobyte scaleIO storageos vsphereVolume"
)
OTHERS: dict[type, str] = {
    ObjectMeta: "managedFields selfLink clusterName",
    pod.PodSpec: "automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers hostAliases "
    "hostIPC hostPID hostUsers hostname hostnameOverride imagePullSecrets os readinessGates "
    "securityContext serviceAccount setHostnameAsFQDN shareProcessNamespace subdomain",
    # A template that was copied from an object has these fields; they have no effect.
    pod.PodTemplateSpec: _COPIED,
    pod.VolumeClaimTemplate: _COPIED,
    batch.JobTemplateSpec: _COPIED,
    pod.Container: "envFrom imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy restartPolicyRules "
    "securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices "
    "volumeMounts workingDir",
    pod.Volume: f"{_SOURCES} configMap downwardAPI emptyDir gitRepo image projected secret",
    pod.PodResourceClaim: "source",
    pod.VolumeClaimSpec: "dataSource dataSourceRef volumeAttributesClassName",
    pod.GcePersistentDisk: _DISK,
    pod.AwsElasticBlockStore: _DISK,
    pod.Iscsi: "chapAuthDiscovery chapAuthSession fsType initiatorName iscsiInterface portals secretRef",
    pod.Rbd: "fsType keyring secretRef user",
    pod.CsiInline: "fsType nodePublishSecretRef readOnly volumeAttributes",
    core.NodeSpec: "configSource externalID podCIDR podCIDRs providerID",
    core.NodeStatus: "addresses config daemonEndpoints declaredFeatures features nodeInfo phase runtimeHandlers",
    core.Namespace: "spec status",
    core.ConfigMap: "immutable",
    storage.PersistentVolumeSpec: f"{_SOURCES} iscsi local mountOptions rbd volumeAttributesClassName",
    storage.CsiVolume: "controllerExpandSecretRef controllerPublishSecretRef fsType nodeExpandSecretRef "
    "nodePublishSecretRef nodeStageSecretRef volumeAttributes",
    storage.ObjectReference: "fieldPath resourceVersion",
    storage.StorageClass: "allowVolumeExpansion mountOptions parameters",
    storage.CSIDriverSpec: "fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount "
    "preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets tokenRequests "
    "volumeLifecycleModes",
    batch.DeploymentSpec: "minReadySeconds progressDeadlineSeconds revisionHistoryLimit rollbackTo",
    batch.ReplicaSetSpec: "minReadySeconds",
    batch.ReplicationControllerSpec: "minReadySeconds",
    batch.StatefulSetSpec: "minReadySeconds persistentVolumeClaimRetentionPolicy revisionHistoryLimit",
    batch.DaemonSetSpec: "minReadySeconds revisionHistoryLimit templateGeneration",
    batch.JobSpec: "backoffLimitPerIndex managedBy maxFailedIndexes podFailurePolicy podReplacementPolicy "
    "successPolicy",
    batch.CronJobSpec: "failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit timeZone",
}  # fmt: skip


class Fields:
    """The names of one type: those that muster reads, all that are valid, and the types below them."""

    __slots__ = ("cls", "inner", "read", "valid")

    def __init__(self, cls: type[Struct]) -> None:
        self.cls = cls
        self.read: tuple[str, ...] = cls.__struct_encode_fields__
        self.valid = frozenset((*self.read, *OTHERS.get(cls, "").split()))
        self.inner: list[tuple[str, bool, Fields]] = []  # (name, is it a list?, the type of its value or items)


@lru_cache(maxsize=256)
def fields_of(cls: type[Struct]) -> Fields:
    """Returns the names of a type and of the types below it, without `status` (except that of a node)."""
    made = Fields(cls)
    described = inspect.type_info(cls)
    assert isinstance(described, inspect.StructType)
    for field in described.fields:
        name = field.encode_name
        if name == "status" and cls is not core.Node:
            continue
        for kind in field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,):
            many = isinstance(kind, inspect.ListType)
            inside = kind.item_type if isinstance(kind, inspect.ListType) else kind
            if isinstance(inside, inspect.StructType):
                made.inner.append((name, many, fields_of(inside.cls)))
    return made


def unknown_names(cls: type[Object], value: dict[str, Any]) -> list[tuple[Unknown, Fields]]:
    """The names in an object of a core kind, or of one with pod templates, that Kubernetes does not know, each with the
    names of its place."""
    known = fields_of(cls)
    return [] if _clean(known, value) else list(_unknown(known, value, ""))


def _clean(known: Fields, value: Any) -> bool:
    """Returns whether all names are known. It builds no paths, because nearly every object is valid."""
    if not value.keys() <= known.valid:
        return False
    for name, many, inner in known.inner:
        inside = value.get(name)
        if inside:
            for item in inside if many else (inside,):
                if item and not _clean(inner, item):
                    return False
    return True


def _unknown(known: Fields, value: Any, path: str) -> Iterator[tuple[Unknown, Fields]]:
    for name in value:
        if name not in known.valid:
            yield Unknown(below(path, str(name)), str(name), known.read), known
    for name, many, inner in known.inner:
        inside = value.get(name)
        for i, item in enumerate(inside or ()) if many else ((-1, inside),):
            if item:
                yield from _unknown(inner, item, below(path, name) + (f"[{i}]" if many else ""))


@lru_cache(maxsize=1024)
def place_of(cls: type[Object], name: str) -> str | None:
    """Returns the path of the topmost part of `cls` in which muster reads a field of that name."""
    waiting = deque([("", fields_of(cls))])
    seen: set[int] = set()
    while waiting:
        path, known = waiting.popleft()
        if path and name in known.read:
            return path
        if id(known) not in seen:
            seen.add(id(known))
            waiting.extend((below(path, part) + "[]" * many, inner) for part, many, inner in known.inner)
    return None


_MIN_SIMILARITY = 0.8  # ratio of difflib above which a name is a typing error


class UnknownName(NamedTuple):
    """An unknown name: severity, location, message and fix."""

    severity: Severity
    path: str
    message: str
    fix: str


def unknown_fields(cls: type[Object], value: dict[str, Any]) -> Iterator[UnknownName]:
    """Yields the fields of an object that its kind does not have."""
    if cls in kinds.CUSTOM:
        for unknown in kinds.unknown_fields(cls, value):
            yield _custom(cls, unknown)
    elif cls in kinds.BUILT_IN:
        for unknown, known in unknown_names(cls, value):
            yield _core(cls, unknown, known)
    elif cls in kinds.TEMPLATED:
        for unknown, known in unknown_names(cls, value):
            # The types of Volcano's kinds have all their fields.
            own = known.cls.__module__ in (cls.__module__, scheduling.__name__)
            yield _custom(cls, unknown) if own else _core(cls, unknown, known)


def _custom(cls: type[Object], unknown: Unknown) -> UnknownName:
    return UnknownName("error", unknown.path, f"{unknown.path}: no such field, it is not read", _nearest(cls, unknown))


def _core(cls: type[Object], unknown: Unknown, known: Fields) -> UnknownName:
    """Reports an unknown field of a core kind: an error if it is a misspelt field that muster reads, because the object
    would be scheduled without it."""
    name, path = unknown.name, unknown.path
    message = f"{path}: Kubernetes has no such field, it is not read"
    near = nearest(name, known.valid)
    elsewhere = next((below(_above(path), part) for part, _, inner in known.inner if name in inner.read), None)
    elsewhere = elsewhere or place_of(cls, name)
    if elsewhere is not None and (near is None or not _similar(name, near)):
        return UnknownName("error", path, message, f"{name} is a field of {elsewhere}: move it there")
    if near is not None:
        return UnknownName("error" if near in known.read else "warning", path, message, f"did you mean {near}?")
    if path.startswith("metadata.") and name in cls.__struct_encode_fields__:
        return UnknownName("error", path, message, _nearest(cls, unknown))
    if known is fields_of(ResourceRequirements):
        return UnknownName("error", path, message, f"write {name} under requests or limits")
    return UnknownName("warning", path, message, "remove it, or look up where it belongs")


def _above(path: str) -> str:
    return path.rpartition(".")[0]


def _similar(name: str, near: str) -> bool:
    return SequenceMatcher(None, name.lower(), near.lower()).ratio() >= _MIN_SIMILARITY


def _nearest(cls: type[Object], unknown: Unknown) -> str:
    if unknown.path.startswith("metadata.") and unknown.name in cls.__struct_encode_fields__:
        return f"{unknown.name} is indented too far: it stands beside metadata, not inside it"
    near = get_close_matches(unknown.name, unknown.known, 1)
    return f"did you mean {near[0]}?" if near else f"the fields here are {', '.join(sorted(unknown.known))}"


# Kinds that muster does not read, in the API groups of which it reads others.
_OTHER_KINDS: dict[str, str] = {
    "": "Binding ComponentStatus Endpoints Event LimitRange PodStatusResult PodTemplate RangeAllocation ResourceQuota "
    "Secret Service ServiceAccount Status Table",
    "policy": "Eviction PodSecurityPolicy",
    "storage.k8s.io": "VolumeAttachment VolumeAttributesClass",
    "kueue.x-k8s.io": "AdmissionCheck ClusterQueue Cohort LocalQueue MultiKueueCluster MultiKueueConfig "
    "ProvisioningRequestConfig ResourceFlavor Workload WorkloadPriorityClass",
    "kai.scheduler": "BindRequest Config SchedulingShard",
}

_JOB_FLOWS = "flow.volcano.sh"  # JobFlow and JobTemplate
_KUBEEDGE = "apps.kubeedge.io"
_KUBEEDGE_FIXES = {
    "NodeGroup": "write it as groupmanagement.kubeedge.io/v1alpha1",
    "EdgeApplication": "write its manifests as workloads with a PropagationPolicy and an OverridePolicy",
}

_STABLE = ("", "apps", "batch")  # groups that hardly get new kinds: a similar name is a misspelt known one


@lru_cache(maxsize=1024)  # a snapshot has many objects of a kind that is not read
def unknown_kind(api_version: str, kind: str) -> UnknownName | None:
    """Returns what is wrong with an unknown kind; None if it is a kind of another project."""
    group = _group(api_version)
    if group == _JOB_FLOWS:
        message = f"passed over: muster does not create the Jobs of a {kind}"
        return UnknownName("warning", "kind", message, "give the Jobs that Volcano creates from it")
    if group == _KUBEEDGE and kind in _KUBEEDGE_FIXES:
        message = f"passed over: apiVersion {api_version} is not read"
        return UnknownName("warning", "apiVersion", message, _KUBEEDGE_FIXES[kind])
    # Of kinds that share a name, the one of the same API group is suggested.
    known = sorted(kinds.known(), key=lambda entry: _group(entry[0]) != group)
    versions = {read: version for version, read in reversed(known)}
    if kind in versions:
        right = versions[kind]
        if group in (_group(right), "extensions"):  # Kubernetes' first group for what is in apps today
            message = f"passed over: apiVersion {api_version} is not read"
            return UnknownName("warning", "apiVersion", message, f"write it as {right}")
        if kind in _OTHER_KINDS.get(group, "").split():
            return None
        if group in _groups() or _is_slip(api_version, right):
            message = f"passed over: apiVersion {api_version} has no kind {kind}"
            return UnknownName("error", "apiVersion", message, f"write apiVersion: {right}")
        return None
    if group not in _groups() or kind in _OTHER_KINDS.get(group, "").split():
        return None
    near = nearest(kind, [*versions, *_OTHER_KINDS.get(group, "").split()])
    if near is None or not (group in _STABLE or _similar(kind, near)):
        return None
    message = f"passed over: apiVersion {api_version} has no kind {kind}"
    return UnknownName("error", "kind", message, f"did you mean {near}?")


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _groups() -> set[str]:
    return {_group(version) for version, _ in kinds.known()}


def _is_slip(api_version: str, right: str) -> bool:
    """Returns whether an apiVersion is a typing error, as `app/v1` for `apps/v1`; the group of another project is
    not."""
    return _similar(api_version, right) and "." not in _group(api_version)


def missing_kind(keys: Iterable[str]) -> str:
    """Returns the fix for a document without apiVersion or kind, by the keys it has."""
    for name in ("kind", "apiVersion"):
        near = nearest(name, keys)
        if near is not None and near != name and _similar(name, near):
            return f"write {name} in place of {near}"
    return "write apiVersion and kind in it"
