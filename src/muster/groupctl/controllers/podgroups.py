"""Writes the PodGroups of pods that name none, as Volcano's controller does, and names them on the pods.

The group is the one that the scheduler has in memory (muster.engine.core.podgroups), so it does not matter which of
the two sees a pod first. Its minimum follows its owner's annotation. A group of a ReplicaSet or StatefulSet that was
scaled to nothing is deleted; every other one goes with its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec.structs import replace

from muster.engine.core.podgroups import GROUP, OWNING, derived_group, expected_owner, group_name, groups_of, owner_of
from muster.engine.core.podgroups import owners_of_group as owners
from muster.groupctl.controllers.object_cache import ObjectCache, ObjectChange
from muster.groupctl.controllers.retries import Retries
from muster.groups.applications import replicas_of
from muster.model.batch import ReplicaSet, StatefulSet
from muster.model.core import Pod
from muster.model.meta import Object, seconds
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active
from muster.model.quantity import QuantityError
from muster.model.requests import requests
from muster.model.scheduling import PodGroup
from muster.store import NotFound, Store

KINDS: tuple[type[Object], ...] = (PodGroup, *OWNING, Pod)
# Other controllers in the same thread have to wait for a run.
MAX_GROUPS_PER_RUN = 200


class PodGroupController:
    """Creates, updates and deletes the PodGroups of pods of the given schedulers."""

    def __init__(
        self, store: Store, scheduler_names: Collection[str], report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._store = store
        self._names = frozenset(scheduler_names)
        self._report = report
        self._cache = ObjectCache(store, KINDS)
        self._retries: Retries[str] = Retries(report)
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
            was, is_ = (self._group_of(pod) if isinstance(pod, Pod) else "" for pod in (change.old, change.new))
            if was and was != is_:
                self._members[was].pop(change.key, None)
                self._dirty[was] = None
            if is_ and (was != is_ or not obj.metadata.annotations.get(GROUP)):
                self._members.setdefault(is_, {})[change.key] = None
                self._dirty[is_] = None
        elif isinstance(obj, PodGroup):
            self._dirty[change.key] = None
        elif obj is not None:
            empty = change.new is not None and isinstance(obj, ReplicaSet | StatefulSet) and replicas_of(obj) == 0
            for group in groups_of(obj):
                self._dirty[group] = None
                self._scaled.pop(group, None)
                if empty:
                    self._scaled[group] = obj

    def _group_of(self, pod: Pod) -> str:
        """The group of a pod that names no other group; empty for finished pods and pods of other schedulers."""
        if not is_active(pod) or pod.spec.scheduler_name not in self._names:
            return ""
        name = group_name(pod)
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
        oldest = min(pods, key=lambda pod: (seconds(pod.metadata.creation_timestamp), key_of(pod)))
        owner = owner_of(oldest, self._cache.lookup)
        if owner is None and expected_owner(oldest) is not None:
            return False  # its minimum is not known before the owner is seen
        try:
            wanted = derived_group(oldest, requests(oldest.spec), owner)
        except (QuantityError, ValueError) as fault:
            self._report(f"pod {key_of(oldest)} cannot be read: {fault}")
            return False
        wrote = self._written(wanted, there, oldest)
        for pod in pods:
            if not pod.metadata.annotations.get(GROUP):
                notes = {GROUP: wanted.metadata.name}
                try:
                    self._store.patch(Pod, key_of(pod), {"metadata": {"uid": pod.metadata.uid, "annotations": notes}})
                except NotFound:
                    continue
                wrote = True
        return wrote

    def _written(self, wanted: PodGroup, there: PodGroup | None, oldest: Pod) -> bool:
        if there is None:
            meta = replace(wanted.metadata, creation_timestamp=None, owner_references=owners(oldest))
            self._store.create(replace(wanted, metadata=meta))
            return True
        if there.spec.min_member == wanted.spec.min_member:
            return False
        spec = {"minMember": wanted.spec.min_member, "minResources": wanted.spec.min_resources}
        self._store.patch(PodGroup, key_of(there), {"metadata": {"uid": there.metadata.uid}, "spec": spec})
        return True

    def _deleted(self, group: str, there: PodGroup | None) -> bool:
        owner = self._scaled.get(group)
        if owner is None or there is None or there.metadata.deletion_timestamp is not None:
            return False
        if all(reference.uid != owner.metadata.uid for reference in there.metadata.owner_references):
            return False
        self._store.delete(PodGroup, group, uid=there.metadata.uid)
        return True
