"""Follows native groups as they change: which jobs must be read again, and which pods must find their job again."""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.core.native_groups import COMPOSITES, GROUPS, NATIVE_KINDS, WORKLOADS, Objects, group_of, root_jobs
from muster.engine.core.podgroups import PodsByGroup
from muster.model.core import Pod
from muster.model.meta import Object, spec_of
from muster.model.native import NativePodGroup

__all__ = ["NativeChanges"]


class NativeChanges:
    """The pods of each native group, and the native objects that changed since the jobs were read."""

    def __init__(self) -> None:
        self._pods: PodsByGroup[str] = PodsByGroup()
        self._changed: dict[tuple[str, str], None] = {}  # kind and key

    def add_pod(self, key: str, pod: Pod) -> None:
        if group := group_of(pod):
            self._pods.put(group, key)

    def remove_pod(self, key: str, pod: Pod) -> None:
        if group := group_of(pod):
            self._pods.discard(group, key)

    def note(self, kind: str, key: str, before: Object | None, after: Object | None) -> None:
        """Records a change of an object, unless only its status is different."""
        if kind in NATIVE_KINDS and not _same(before, after):
            self._changed[kind, key] = None

    def take(self, objects: Objects, jobs: Iterable[str]) -> tuple[list[str], list[str]]:
        """Returns the keys of the jobs to read again, and of the pods that must find their job again.

        A tree is read again as a whole, with all trees of its namespace: a parent may have joined or divided it.
        """
        if not self._changed:
            return [], []
        changed, self._changed = self._changed, {}
        trees = {key.partition("/")[0] for key in objects.get(COMPOSITES, {})}
        trees |= {key.partition("/")[0] for kind, key in changed if kind == COMPOSITES}
        trees &= {key.partition("/")[0] for _, key in changed}
        groups: dict[str, None] = {}
        stale: dict[str, None] = {}
        for kind, key in changed:
            if kind == WORKLOADS:
                groups.update(dict.fromkeys(group for group in self._pods if group.startswith(f"{key}/")))
                stale.update(dict.fromkeys(_made_from(key, objects)))
            elif kind == GROUPS:
                groups[key] = None
                stale[f"{key};{GROUPS}"] = None
        for namespace in trees:
            prefix = f"{namespace}/"
            groups.update(dict.fromkeys(group for group in self._pods if group.startswith(prefix)))
            stale.update(dict.fromkeys(key for key in jobs if key.startswith(prefix) and key.endswith(COMPOSITES)))
            stale.update(dict.fromkeys(root_jobs(objects, namespace)))
        return list(stale), [pod for group in groups for pod in self._pods.get(group, ())]


def _same(before: Object | None, after: Object | None) -> bool:
    if before is None or after is None:
        return False
    old, new = before.metadata, after.metadata
    if (old.labels, old.annotations, old.uid) != (new.labels, new.annotations, new.uid):
        return False
    return old.creation_timestamp == new.creation_timestamp and spec_of(before) == spec_of(after)


def _made_from(workload: str, objects: Objects) -> Iterable[str]:
    """The jobs of the groups that were made from a Workload: it may name their queue."""
    namespace, _, name = workload.partition("/")
    for key, group in objects.get(GROUPS, {}).items():
        made_from = group.spec.workload_name if isinstance(group, NativePodGroup) else ""
        if made_from == name and key.startswith(f"{namespace}/"):
            yield f"{key};{GROUPS}"
