"""The owners of pods: the index by which the workload controllers count, adoption, and the creation of pods.

A pod belongs to the owner that its controller reference names; one without a controller is adopted by the first owner
whose selector matches it. Pods of an owner that is not in the cluster are left alone. The names of pods are like those
of Kubernetes, but deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.groups.applications import owner_kind
from muster.model.core import Pod, PodSpec, PodTemplateSpec
from muster.model.kinds import KINDS
from muster.model.meta import LabelSelector, Object, ObjectMeta, OwnerReference, controller, kind_name
from muster.model.meta import key as key_of
from muster.model.pod_states import is_healthy, is_terminating
from muster.model.selectors import matches
from muster.model.storage import PersistentVolumeClaim
from muster.store import Change, WatchEvent

T = TypeVar("T", bound=Object)
OwnerKey = tuple[str, str]  # kind, ns/name
Labels = tuple[tuple[str, str], ...]


class Owned(Generic[T]):
    """Index of the objects of one kind by their controller, and of those without one by their labels."""

    def __init__(self, store: MemoryStore, kind: type[T]) -> None:
        self._store = store
        self.kind = kind
        self._owner: dict[str, OwnerKey | None] = {}
        self._labels: dict[str, tuple[dict[str, str], Labels]] = {}  # of those without a controller
        self.by_owner: dict[OwnerKey, dict[str, None]] = {}
        self._orphans: dict[str, dict[Labels, dict[str, None]]] = {}  # namespace → labels → keys
        self._arrivals: dict[str, int] = {}  # namespace → how many orphans have come
        for key, obj in sorted(store.of(kind).items()):
            self._enter(key, obj)

    def follow(self, event: WatchEvent) -> OwnerKey | None:
        """Applies a change of an object of this kind; returns the owner that it affects."""
        obj, key = event.object, event.key
        before = self._owner.get(key)
        if event.change == Change.DELETED:
            self._leave(key, obj)
            return before
        now = _owner_key(obj)
        relabelled = now is None and key in self._labels and self._labels[key][0] != obj.metadata.labels
        if key not in self._owner or before != now or relabelled:
            self._leave(key, obj)
            self._enter(key, obj)
        return now

    def of(self, owner: Object) -> list[T]:
        """Returns the objects that the owner controls, sorted by name."""
        table, uid, owner_key = self._store.of(self.kind), owner.metadata.uid, key_of(owner)
        found = []
        for key in sorted(self.by_owner.get((type(owner).__name__, owner_key), ())):
            obj = table[key]
            reference = controller(obj.metadata)
            # A reference without uid means the owner of that name, and an owner given without uid is any of that name.
            if reference is not None and (reference.uid in ("", uid) or uid == owner_key):
                found.append(obj)
        return found

    def orphans(self, namespace: str, selector: LabelSelector) -> list[T]:
        """Returns the objects without a controller that the selector matches, sorted by name."""
        groups = self._orphans.get(namespace, {})
        keys = [key for labels, group in groups.items() if group and matches(selector, dict(labels)) for key in group]
        table = self._store.of(self.kind)
        return [table[key] for key in sorted(keys)]

    def arrivals(self, namespace: str) -> int:
        """Returns a number that grows whenever an object without a controller is added."""
        return self._arrivals.get(namespace, 0)

    def _enter(self, key: str, obj: Object) -> None:
        owner = self._owner[key] = _owner_key(obj)
        if owner is not None:
            self.by_owner.setdefault(owner, {})[key] = None
            return
        namespace = obj.metadata.namespace
        labels = tuple(sorted(obj.metadata.labels.items()))
        self._labels[key] = obj.metadata.labels, labels
        self._orphans.setdefault(namespace, {}).setdefault(labels, {})[key] = None
        self._arrivals[namespace] = self._arrivals.get(namespace, 0) + 1

    def _leave(self, key: str, obj: Object) -> None:
        owner = self._owner.pop(key, None)
        if owner is not None:
            self.by_owner.get(owner, {}).pop(key, None)
        elif key in self._labels:
            _, labels = self._labels.pop(key)
            groups = self._orphans[obj.metadata.namespace]
            del groups[labels][key]
            if not groups[labels]:
                del groups[labels]


class Owners:
    """The operations on pods that all workload controllers share."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.pods = Owned(store, Pod)
        self._looked: dict[tuple[str, str, str], int] = {}  # owner → how many orphans had come when it last looked
        self._made: dict[OwnerKey, int] = {}

    def adopt(
        self, looker: Object, selector: LabelSelector | None, among: Owned[T], owner: Object | None = None
    ) -> bool:
        """Sets the owner reference on selected objects without a controller; returns whether there were any."""
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return False  # Kubernetes: an empty selector is refused by the API server; it must not take everything.
        namespace = looker.metadata.namespace
        mark = (type(looker).__name__, looker.metadata.uid, among.kind.__name__)
        if self._looked.get(mark) == among.arrivals(namespace):
            return False
        found = [obj for obj in among.orphans(namespace, selector) if not is_terminating(obj)]
        for obj in found:
            references = [*obj.metadata.owner_references, reference(owner or looker)]
            self.store.write(replace(obj, metadata=replace(obj.metadata, owner_references=references)))
        self._looked[mark] = among.arrivals(namespace)
        return bool(found)

    def make(
        self,
        owner: Object,
        template: PodTemplateSpec,
        *,
        name: str = "",
        prefix: str = "",
        spec: PodSpec | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:
        """Creates a pod from the owner's template, with the given name or a generated one."""
        meta = template.metadata
        made = ObjectMeta(
            name=name or self._name(owner, prefix or owner.metadata.name),
            namespace=owner.metadata.namespace,
            labels={**meta.labels, **labels} if labels else meta.labels,
            annotations={**meta.annotations, **annotations} if annotations else meta.annotations,
            owner_references=[reference(owner)],
        )
        return self.store.create(Pod(metadata=made, spec=template.spec if spec is None else spec))

    def _name(self, owner: Object, prefix: str) -> str:
        kind, key = type(owner).__name__, key_of(owner)
        while True:
            serial = self._made.get((kind, key), 0)
            self._made[kind, key] = serial + 1
            name = generated(prefix, f"{kind}/{key}/{serial}")
            if not self.store.known(Pod, f"{owner.metadata.namespace}/{name}"):
                return name

    def delete_pod(self, pod: Pod) -> None:
        """Deletes a pod that its owner no longer needs."""
        if not is_terminating(pod):
            self.store.delete(Pod, key_of(pod))

    def report(self, owner: T, status: object) -> None:
        """Writes the owner's status if it has changed."""
        if getattr(owner, "status", None) != status:
            current = self.store.of(type(owner)).get(key_of(owner))
            if current is not None:
                self.store.write(replace(current, status=status))


def reference(owner: Object) -> OwnerReference:
    """Returns the owner reference for the pods of an owner."""
    return OwnerReference(
        api_version=owner.api_version,
        kind=kind_name(type(owner)),
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def surplus(pods: list[Pod], count: int) -> list[Pod]:
    """Returns the pods to delete first: unbound, not running, not ready, youngest; ties are broken by name."""
    if count <= 0:
        return []

    def order(pod: Pod) -> tuple[bool, bool, bool]:
        return (bool(pod.spec.node_name), pod.status.phase == "Running", is_healthy(pod))

    by_name = sorted(pods, key=key_of)
    by_age = sorted(by_name, key=lambda p: p.metadata.creation_timestamp or "", reverse=True)
    return sorted(by_age, key=order)[:count]


def _owner_key(obj: Object) -> OwnerKey | None:
    if not obj.metadata.owner_references:
        return None
    owner = controller(obj.metadata)
    return None if owner is None else (owner_kind(owner), f"{obj.metadata.namespace}/{owner.name}")


Owner = tuple[str, str, str]  # kind, namespace, name


class Garbage:
    """The garbage collector. Owners that were never in the cluster do not count as deleted."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._watch = store.watch(str(store.version))
        self._owned: dict[str, dict[str, None]] = {}  # kind → objects that name owners
        for table in store.everything().values():
            for key, obj in table.items():
                self._follow(key, obj)

    def _follow(self, key: str, obj: Object) -> None:
        if obj.metadata.owner_references:
            self._owned.setdefault(type(obj).__name__, {})[key] = None
        elif (owned := self._owned.get(type(obj).__name__)) is not None:
            owned.pop(key, None)

    def run(self) -> bool:
        """Deletes the objects whose owner was deleted; returns whether there were any."""
        gone: dict[Owner, dict[str, None]] = {}
        for event in self._watch.take():
            if event.change != Change.DELETED:
                self._follow(event.key, event.object)
            else:
                self._owned.get(event.kind, {}).pop(event.key, None)
                meta = event.object.metadata
                gone.setdefault((event.kind, meta.namespace, meta.name), {})[meta.uid] = None
        if not gone:
            return False
        before = self._store.version
        only_pods = all(kind == "Pod" for kind, _, _ in gone)
        # Pods own nothing but the claims of their ephemeral volumes: no need to look through everything for them.
        # Applications of configured kinds are nobody's.
        there = [PersistentVolumeClaim.__name__] if only_pods else sorted(self._owned)
        for kind in [KINDS[name] for name in there if name in KINDS]:
            table = self._store.of(kind)
            owned = self._owned.get(kind.__name__, ())
            for key in sorted(key for key in owned if key in table and _orphaned(table[key], gone)):
                self._store.delete(kind, key)
        return self._store.version != before


def _orphaned(obj: Object, gone: dict[Owner, dict[str, None]]) -> bool:
    references = obj.metadata.owner_references
    if not references or is_terminating(obj):
        return False
    for owner in references:
        kind = owner_kind(owner)
        uids = gone.get((kind, obj.metadata.namespace, owner.name)) or gone.get((kind, "", owner.name))
        if uids is None or (owner.uid and owner.uid not in uids):
            return False
    return True


# Kubernetes: the letters of generated names, without vowels and look-alikes.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_encode = msgspec.json.Encoder(order="sorted").encode
# Kubernetes: a generated name has at most 63 characters.
_MAX_NAME_CHARS = 63
TEMPLATE_HASH = "pod-template-hash"


def letters(seed: str, count: int = 5) -> str:
    """Returns letters that depend only on the seed."""
    from hashlib import blake2b  # loads OpenSSL: not part of the start of a command

    number = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "big")
    found = []
    for _ in range(count):
        number, place = divmod(number, len(_LETTERS))
        found.append(_LETTERS[place])
    return "".join(found)


def generated(prefix: str, seed: str) -> str:
    """Returns `prefix` followed by five letters."""
    return f"{prefix[: _MAX_NAME_CHARS - 6]}-{letters(seed)}"


def template_hash(template: PodTemplateSpec) -> str:
    """Returns the hash of a pod template; a hash label in it is ignored."""
    plain = msgspec.to_builtins(template)
    plain.get("metadata", {}).get("labels", {}).pop(TEMPLATE_HASH, None)
    return letters(_encode(plain).decode(), 9)
