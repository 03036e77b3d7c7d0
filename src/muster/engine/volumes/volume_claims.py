"""A pod's claims for volumes: which it has, which are bound, which wait for the pod to be scheduled.

The rules are kube-scheduler's. Two things a manifest leaves out are read as the cluster would fill them in: a claim
without a class gets the default class, and a claim that names its volume and has no status at all is bound to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from msgspec import Struct, field

from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Task
from muster.model.core import Volume
from muster.model.meta import Object, controller, seconds
from muster.model.pod_states import is_terminating
from muster.model.quantity import QuantityError, units
from muster.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

UNBOUND = Reason("claim-unbound", "pod has unbound immediate PersistentVolumeClaims", resolvable=False)


class VolumeClaim(Struct, frozen=True):
    """A PersistentVolumeClaim and what matching reads of it."""

    key: str  # ns/name
    object: PersistentVolumeClaim
    storage_class: str  # "" = none
    size: int | None  # bytes; None = it requests no size

    @property
    def selected_node(self) -> str:
        return self.object.metadata.annotations.get(SELECTED_NODE, "")


class PodClaims(Struct):
    """The claims of one pod, in the order of its volumes, each once."""

    missing: Reason | None = None  # a claim it names does not exist
    fault: Reason | None = None  # why no node can have it, if so: the first thing wrong with its claims
    bound: list[VolumeClaim] = field(default_factory=list)
    delayed: list[VolumeClaim] = field(default_factory=list)  # unbound, to be bound where the pod goes
    immediate: list[VolumeClaim] = field(default_factory=list)  # unbound, should be bound already
    once: list[str] = field(default_factory=list)  # keys of claims that one pod of the cluster may use
    ephemeral: set[str] = field(default_factory=set)  # keys of claims that live as long as the pod
    limited: bool = False  # a CSI driver that attaches a volume of the pod has a limit
    node_rules: frozenset[Hashable] | None = None  # see `VolumeBinder.of`


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The claim behind a pod's volume; an ephemeral volume's claim is called <pod>-<volume>."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod_name}-{volume.name}" if volume.ephemeral is not None else None


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(_CLASS) or volume.spec.storage_class_name


class VolumeClaims:
    """Reads claims out of the cluster's objects."""

    def __init__(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        self._claims = objects.get("PersistentVolumeClaim", {})
        self._classes = objects.get("StorageClass", {})
        self._default: str | None = None
        self._known: dict[str, VolumeClaim | Reason] = {}

    def storage_class(self, name: str) -> StorageClass | None:
        found = self._classes.get(name)
        return found if isinstance(found, StorageClass) else None

    def get(self, key: str) -> VolumeClaim | Reason | None:
        """The claim; why it cannot be read; None if it does not exist."""
        known = self._known.get(key)
        if known is None:
            claim = self._claims.get(key)
            if not isinstance(claim, PersistentVolumeClaim):
                return None
            known = self._known[key] = self._read(key, claim)
        return known

    def _read(self, key: str, claim: PersistentVolumeClaim) -> VolumeClaim | Reason:
        named = claim.metadata.annotations.get(_CLASS) or claim.spec.storage_class_name
        if named is None:
            named = "" if claim.spec.volume_name else self._default_class()
        asked = claim.spec.resources.requests.get("storage") if claim.spec.resources else None
        try:
            size = None if asked is None else units(asked)
        except QuantityError as error:
            where = f'persistentvolumeclaim "{claim.metadata.name}": spec.resources.requests.storage'
            return Reason("bad-object", f"{where}: {error}", resolvable=False)
        return VolumeClaim(key, claim, named, size)

    def _default_class(self) -> str:
        """The newest of the classes marked as default, as the API server's admission picks it; "" if there is none."""
        if self._default is None:
            marked = [
                (-seconds(c.metadata.creation_timestamp), name)
                for name, c in self._classes.items()
                if isinstance(c, StorageClass) and c.metadata.annotations.get(_DEFAULT_CLASS) == "true"
            ]
            self._default = min(marked)[1] if marked else ""
        return self._default

    def waits(self, claim: VolumeClaim) -> bool:
        """Returns whether the claim is bound only when a pod that uses it has a node."""
        found = self.storage_class(claim.storage_class)
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"

    def of(self, task: Task) -> PodClaims:
        """The claims of a pod. Reading stops at the first thing that keeps the pod from every node."""
        result = PodClaims()
        seen: set[str] = set()
        for volume in task.pod.spec.volumes:
            name = claim_name(task.name, volume)
            if name is None:
                continue
            key = f"{task.namespace}/{name}"
            if key in seen:
                continue
            seen.add(key)
            claim = self.get(key)
            if claim is None:
                result.missing = result.missing or _missing(name, volume)
                result.fault = result.fault or result.missing
                continue
            if isinstance(claim, Reason):
                result.fault = result.fault or claim
                continue
            result.fault = result.fault or _fault(task, claim, volume)
            self._sort(result, claim)
            if volume.ephemeral is not None:
                result.ephemeral.add(key)
            elif "ReadWriteOncePod" in claim.object.spec.access_modes:
                result.once.append(key)
        if result.immediate:
            result.fault = result.fault or UNBOUND
        return result

    def _sort(self, result: PodClaims, claim: VolumeClaim) -> None:
        if is_bound(claim.object):
            result.bound.append(claim)
        elif self.waits(claim) and not claim.object.spec.volume_name:
            result.delayed.append(claim)
        else:
            # kube-scheduler: a claim that names its volume and is not bound to it yet is one that should be bound.
            result.immediate.append(claim)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Both ends of the binding are written; a claim without a status, as in a manifest, counts as bound."""
    if not claim.spec.volume_name:
        return False
    return BIND_COMPLETED in claim.metadata.annotations or claim.status.phase in ("", "Bound")


def _missing(name: str, volume: Volume) -> Reason:
    if volume.ephemeral is not None:
        text = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    else:
        text = f'persistentvolumeclaim "{name}" not found'
    return Reason("claim-missing", text, resolvable=False)


def _fault(task: Task, claim: VolumeClaim, volume: Volume) -> Reason | None:
    meta, spec = claim.object.metadata, claim.object.spec
    if claim.object.status.phase == "Lost":
        text = f'persistentvolumeclaim "{meta.name}" bound to non-existent persistentvolume "{spec.volume_name}"'
        return Reason("claim-lost", text, resolvable=False)
    if is_terminating(claim.object):
        return Reason("claim-deleted", f'persistentvolumeclaim "{meta.name}" is being deleted', resolvable=False)
    if volume.ephemeral is not None and not _made_for(task, claim):
        text = f"PVC {claim.key} was not created for pod {task.key} (pod is not owner)"
        return Reason("claim-not-owned", text, resolvable=False)
    return None


def _made_for(task: Task, claim: VolumeClaim) -> bool:
    owner = controller(claim.object.metadata)
    if owner is None:
        return False
    # In a manifest written by hand neither has a uid: then the names are compared.
    return owner.uid == task.uid if owner.uid else (owner.kind, owner.name) == ("Pod", task.name)
