"""The field names that Kubernetes knows, and the names in an object of a core kind that it does not know.

The model has the fields that muster reads. `OTHERS` lists the further fields of the same types (Kubernetes 1.36, and
names of older releases that are still in use), so that a valid manifest is never reported. The API server refuses a
name that is in neither list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec.inspect as inspect
from msgspec import Struct

from muster.model import batch, core, pod, storage
from muster.model.meta import Object, ObjectMeta
from muster.model.shape import Unknown, below

__all__ = ["Fields", "fields_of", "place_of", "unknown_names"]

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
