"""The kinds muster reads: which apiVersion and kind is which type, and how a plain value becomes an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from muster.model import batch, core, groups, native, scheduling, shape, storage, topology, volcano_job
from muster.model.meta import Object, kind_name
from muster.model.shape import Problem, Unknown

T = TypeVar("T", bound=Object)

# Under every apiVersion that has the shape of the type's own, which comes first.
_VERSIONS: dict[type[Object], tuple[str, ...]] = {
    core.Node: ("v1",),
    core.Pod: ("v1",),
    core.Namespace: ("v1",),
    core.ConfigMap: ("v1",),
    core.PriorityClass: ("scheduling.k8s.io/v1", "scheduling.k8s.io/v1beta1"),
    core.PodDisruptionBudget: ("policy/v1", "policy/v1beta1"),
    storage.PersistentVolume: ("v1",),
    storage.PersistentVolumeClaim: ("v1",),
    storage.StorageClass: ("storage.k8s.io/v1", "storage.k8s.io/v1beta1"),
    storage.CSINode: ("storage.k8s.io/v1", "storage.k8s.io/v1beta1"),
    storage.CSIDriver: ("storage.k8s.io/v1", "storage.k8s.io/v1beta1"),
    storage.CSIStorageCapacity: ("storage.k8s.io/v1", "storage.k8s.io/v1beta1"),
    batch.Deployment: ("apps/v1",),
    batch.ReplicaSet: ("apps/v1",),
    batch.StatefulSet: ("apps/v1",),
    batch.DaemonSet: ("apps/v1",),
    batch.ControllerRevision: ("apps/v1",),
    batch.ReplicationController: ("v1",),
    batch.Job: ("batch/v1",),
    batch.CronJob: ("batch/v1", "batch/v1beta1"),
    scheduling.Queue: ("scheduling.volcano.sh/v1beta1",),
    scheduling.PodGroup: ("scheduling.volcano.sh/v1beta1",),
    volcano_job.Job: (volcano_job.API_VERSION,),
    volcano_job.CronJob: (volcano_job.API_VERSION,),
    native.NativePodGroup: tuple(f"{native.GROUP}/{version}" for version in native.VERSIONS[:3]),
    native.CompositePodGroup: (f"{native.GROUP}/v1alpha3",),
    native.NativeWorkload: tuple(f"{native.GROUP}/{version}" for version in native.VERSIONS),
    topology.Topology: ("kueue.x-k8s.io/v1alpha1", "kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1"),
    topology.HyperNode: ("topology.volcano.sh/v1alpha1",),
    groups.NodeGroup: ("groupmanagement.kubeedge.io/v1alpha1",),
    groups.PropagationPolicy: ("groupmanagement.kubeedge.io/v1alpha1",),
    groups.OverridePolicy: ("groupmanagement.kubeedge.io/v1alpha1",),
}

# The custom resources: the model has all their fields, so a field it does not have is a mistake worth telling.
CUSTOM: frozenset[type[Object]] = frozenset(
    {
        scheduling.Queue,
        scheduling.PodGroup,
        topology.Topology,
        topology.HyperNode,
        groups.NodeGroup,
        groups.PropagationPolicy,
        groups.OverridePolicy,
    }
)

# Custom resources with pod templates in them. The model has all the fields that are not Kubernetes' own.
TEMPLATED: frozenset[type[Object]] = frozenset({volcano_job.Job, volcano_job.CronJob})

# Kubernetes' own kinds: `model.fields` knows the fields that muster does not read.
BUILT_IN: frozenset[type[Object]] = frozenset(_VERSIONS) - CUSTOM - TEMPLATED

# A kind that shares its name with one of Kubernetes is called by kind and API group in object tables.
_KINDS = {(version, kind_name(cls)): cls for cls, versions in _VERSIONS.items() for version in versions}
KINDS: dict[str, type[Object]] = {cls.__name__: cls for cls in _VERSIONS}
_TABLES = {(version.rpartition("/")[0], kind): cls.__name__ for (version, kind), cls in _KINDS.items()}


def known() -> list[tuple[str, str]]:
    """Every (apiVersion, kind) that is read; of a kind with several versions the preferred one comes first."""
    return list(_KINDS)


def find(api_version: str, kind: str) -> type[Object] | None:
    """The type of a kind, or None if muster does not read it."""
    return _KINDS.get((api_version, kind))


def table_name(group: str, kind: str) -> str:
    """The name of a kind in object tables: the kind, with its API group if muster does not define it."""
    found = _TABLES.get((group, kind))
    return found if found is not None else f"{kind}.{group}" if group else kind


def decode(value: Mapping[str, Any]) -> Object:
    """The object in a plain value. Problem names the first field that cannot be read."""
    cls = find(str(value.get("apiVersion")), str(value.get("kind")))
    if cls is None:
        raise Problem("kind", f"muster does not read {value.get('kind')} of {value.get('apiVersion')}")
    return decode_as(cls, value)


def decode_as(cls: type[T], value: Mapping[str, Any]) -> T:
    """The object in a plain value that is known to be a `cls`."""
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError as error:
        return _second_look(cls, value, error)


def decode_json(cls: type[T], text: bytes) -> T:
    """The object in JSON text that is known to be a `cls`."""
    try:
        return msgspec.json.decode(text, type=cls)
    except msgspec.ValidationError as error:
        return _second_look(cls, msgspec.json.decode(text), error)


def _second_look(cls: type[T], value: object, error: msgspec.ValidationError) -> T:
    """Raises the error in Kubernetes' terms, unless only nulls are wrong, which count as absent fields."""
    for problem in shape.problems(cls, value):
        raise problem from None
    try:
        return msgspec.convert(shape.without_nulls(cls, value), cls)
    except msgspec.ValidationError:
        raise Problem("", str(error)) from None


def unknown_fields(cls: type[Object], value: object) -> list[Unknown]:
    """The fields that a custom resource does not have, with their paths. `model.fields` has those of other kinds."""
    return shape.unknown_fields(cls, value) if cls in CUSTOM else []


def plain(obj: Object) -> dict[str, Any]:
    """The object as a plain value, apiVersion and kind in front, fields that have their default left out."""
    value: dict[str, Any] = msgspec.to_builtins(obj)
    # msgspec leaves out what is the default, and apiVersion and kind nearly always are.
    return {"apiVersion": obj.api_version, "kind": obj.kind, **value}
