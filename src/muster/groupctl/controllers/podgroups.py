"""Writes the PodGroups of pods that name none, as Volcano's controller does, and names them on the pods.

The group is the one that the scheduler has in memory (muster.engine.core.podgroups), so it does not matter which of
the two sees a pod first. Its minimum follows its owner's annotation. A group of a ReplicaSet or StatefulSet that was
scaled to nothing is deleted; every other one goes with its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import to_builtins
from msgspec.structs import replace

from muster.engine.core.described_groups import DescribedGang, DescribedKinds, described_group
from muster.engine.core.native_groups import group_of as native_group_of
from muster.engine.core.podgroups import (
    GROUP,
    OWNING,
    derived_group,
    expected_owner,
    group_name,
    groups_of,
    owner_of,
    segment_name,
)
from muster.engine.core.podgroups import owners_of_group as owners
from muster.engine.core.reading import ROLE
from muster.engine.core.subgroups import LABEL
from muster.groupctl.controllers.object_cache import ObjectCache, ObjectChange
from muster.groupctl.controllers.retries import Retries
from muster.groups.applications import owner_ref, replicas_of
from muster.model.batch import ReplicaSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.meta import Object, OwnerReference, kind_name, seconds
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active, is_terminating
from muster.model.quantity import QuantityError
from muster.model.requests import requests
from muster.model.scheduling import PodGroup
from muster.store import NotFound, Store
from muster.workloads.workload import description_of, read_workload

KINDS: tuple[type[Object], ...] = (PodGroup, *OWNING, Pod)
# Other controllers in the same thread have to wait for a run.
MAX_GROUPS_PER_RUN = 200


class PodGroupController:
    """Creates, updates and deletes the PodGroups of pods of the given schedulers.

    `custom` are the described workload kinds that are followed: their objects make gangs of their pods.
    """

    def __init__(
        self,
        store: Store,
        scheduler_names: Collection[str],
        report: Callable[[str], None] = lambda _: None,
        custom: Sequence[type[ConfiguredApplication]] = (),
    ) -> None:
        self._store = store
        self._names = frozenset(scheduler_names)
        self._report = report
        self._described = DescribedKinds()
        for kind in custom:
            self._described.learn(kind)
        self._cache = ObjectCache(store, (*custom, *KINDS))
        self._retries: Retries[str] = Retries(report)
        self._group: dict[str, str] = {}  # pod → its group
        self._members: dict[str, dict[str, None]] = {}  # group → its pods, and those that it is created for
        self._dirty: dict[str, None] = {}
        self._scaled: dict[str, Object] = {}  # group → its owner, scaled to zero

    def run(self) -> bool:
        now = self._store.clock.now()
        for change in self._cache.take_changes():
            self._note(change)
        self._dirty.update(dict.fromkeys(self._retries.due(now)))
        wrote = False
        for group in list(self._dirty)[:MAX_GROUPS_PER_RUN]:
            del self._dirty[group]
            with self._retries.attempt(group, now):
                wrote = self._reconcile(group) or wrote
        return wrote or bool(self._dirty)

    def next_time(self) -> float | None:
        return self._retries.next_time()

    # --- changes

    def _note(self, change: ObjectChange) -> None:
        obj = change.new if change.new is not None else change.old
        if isinstance(obj, Pod):
            self._place(change.key, change.new if isinstance(change.new, Pod) else None)
        elif isinstance(obj, PodGroup):
            self._dirty[change.key] = None
        elif obj is not None:
            empty = change.new is not None and isinstance(obj, ReplicaSet | StatefulSet) and replicas_of(obj) == 0
            for group in groups_of(obj):
                self._dirty[group] = None
                self._scaled.pop(group, None)
                if empty:
                    self._scaled[group] = obj
            self._follow_owner(change)

    def _place(self, key: str, pod: Pod | None) -> None:
        """Notes the group of a pod that came, changed or went."""
        was, is_ = self._group.pop(key, ""), self._group_of(pod) if pod is not None else ""
        if is_:
            self._group[key] = is_
        if was and was != is_:
            self._members[was].pop(key, None)
            self._dirty[was] = None
        if is_ and pod is not None and (was != is_ or not pod.metadata.annotations.get(GROUP)):
            self._members.setdefault(is_, {})[key] = None
            self._dirty[is_] = None

    def _follow_owner(self, change: ObjectChange) -> None:
        """Groups the pods again that may belong to an owner; its gangs may need another minimum."""
        pods = self._cache.of(Pod)
        for key in self._described.pods_of(change.kind, change.key):
            if key in pods:
                self._place(key, pods[key])
                if key in self._group:
                    self._dirty[self._group[key]] = None
        if isinstance(change.new, ConfiguredApplication):
            # A gang without pods may have to go.
            for group in self._cache.owned((change.kind, change.key), PodGroup):
                self._dirty[key_of(group)] = None

    def _group_of(self, pod: Pod) -> str:
        """The group of a pod that names no other group; empty for finished pods, pods of other schedulers, pods of
        native groups and pods whose owner is not known yet."""
        if not is_active(pod) or pod.spec.scheduler_name not in self._names or native_group_of(pod):
            return ""
        name = group_name(pod)
        if self._described:
            gang = self._described.place(key_of(pod), pod, self._cache.lookup)
            if gang is not None:
                name = gang.name
            elif self._described.named_owner(pod) is not None:
                return ""
        if pod.metadata.annotations.get(GROUP, name) not in ("", name):
            return ""
        return f"{pod.metadata.namespace or 'default'}/{name}"

    # --- reconciling

    def _reconcile(self, group: str) -> bool:
        pods = [self._cache.of(Pod)[key] for key in self._members.get(group, ())]
        there = self._cache.of(PodGroup).get(group)
        if not pods:
            self._members.pop(group, None)
            return self._deleted(group, there)
        pods.sort(key=lambda pod: (seconds(pod.metadata.creation_timestamp), key_of(pod)))
        oldest = pods[0]
        gang = self._described.gang_of(oldest, self._cache.lookup)
        owner = owner_of(oldest, self._cache.lookup)
        if gang is None and owner is None and expected_owner(oldest) is not None:
            return False  # its minimum is not known before the owner is seen
        try:
            wanted = described_group(gang, pods) if gang else derived_group(oldest, requests(oldest.spec), owner)
        except (QuantityError, ValueError) as fault:
            self._report(f"pod {key_of(oldest)} cannot be read: {fault}")
            return False
        references = [reference(gang.owner)] if gang is not None else owners(oldest)
        wrote = self._written(wanted, there, references)
        for pod in pods:
            if not pod.metadata.annotations.get(GROUP):
                wrote = self._name_group(pod, wanted.metadata.name, gang) or wrote
        return wrote

    def _name_group(self, pod: Pod, group: str, gang: DescribedGang | None) -> bool:
        """Writes the name of its group, its role and its sub-group on a pod."""
        annotations, labels = {GROUP: group}, {}
        role = gang.role_of(pod) if gang is not None else ""
        sub_group = gang.sub_group_of(pod) if gang is not None else segment_name(pod)
        if role and ROLE not in pod.metadata.annotations:
            annotations[ROLE] = role
        if sub_group and LABEL not in pod.metadata.labels:
            labels[LABEL] = sub_group
        metadata = {"uid": pod.metadata.uid, "annotations": annotations, **({"labels": labels} if labels else {})}
        try:
            self._store.patch(Pod, key_of(pod), {"metadata": metadata})
        except NotFound:
            return False
        return True

    def _written(self, wanted: PodGroup, there: PodGroup | None, references: list[OwnerReference]) -> bool:
        if there is None:
            meta = replace(wanted.metadata, creation_timestamp=None, owner_references=references)
            self._store.create(replace(wanted, metadata=meta))
            return True
        names = ("minMember", "minTaskMember", "subGroups")
        new, old = (to_builtins(group.spec) for group in (wanted, there))
        if all(new.get(name) == old.get(name) for name in names):
            return False
        spec = {name: new.get(name) for name in (*names, "minResources")}
        self._store.patch(PodGroup, key_of(there), {"metadata": {"uid": there.metadata.uid}, "spec": spec})
        return True

    def _deleted(self, group: str, there: PodGroup | None) -> bool:
        if there is None or is_terminating(there):
            return False
        owner = self._scaled.get(group)
        scaled = owner is not None and any(
            reference.uid == owner.metadata.uid for reference in there.metadata.owner_references
        )
        if not scaled and not self._has_no_gang(there):
            return False
        self._store.delete(PodGroup, group, uid=there.metadata.uid)
        return True

    def _has_no_gang(self, group: PodGroup) -> bool:
        """Whether the described owner of a group without pods has fewer gangs, or none at all."""
        above = owner_ref(group)
        owner = self._cache.lookup(*above) if above is not None else None
        description = description_of(type(owner)) if owner is not None else None
        if description is None or not isinstance(owner, ConfiguredApplication):
            return False
        workload = read_workload(owner, description)
        divided = bool(description.pods.gang_label)
        values = map(str, range(workload.gangs)) if divided else [""] if workload.gangs else []
        names = {DescribedGang(owner, description, value).name for value in values}
        return workload.suspended or group.metadata.name not in names


def reference(owner: Object) -> OwnerReference:
    """The group goes with the owner of its gang, which does not wait for it."""
    meta = owner.metadata
    return OwnerReference(
        api_version=owner.api_version, kind=kind_name(type(owner)), name=meta.name, uid=meta.uid, controller=True
    )
