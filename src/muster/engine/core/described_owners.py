"""Finds the group of a pod that names none, in a cluster that may have workloads of described kinds.

Owners and pods come in any order: a pod is grouped again when an object comes or goes that may decide its gang.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Job, Task
from muster.engine.core.podgroups import GROUP, group_name, segment_name
from muster.groups.applications import Lookup
from muster.model.custom import ConfiguredApplication
from muster.model.meta import Object

if TYPE_CHECKING:
    from muster.engine.core.described_groups import DescribedKinds


class DescribedOwners:
    """The described kinds of a cluster, and the pods that their objects may make gangs of."""

    def __init__(self, lookup: Lookup) -> None:
        self.kinds: DescribedKinds | None = None
        self._lookup = lookup
        self._awaited: Collection[str] = ()  # kinds whose objects are followed: pods wait for theirs

    def learn(self, kind: type[Object]) -> bool:
        """Notes a kind; returns whether it is a described kind that was not known."""
        if not issubclass(kind, ConfiguredApplication) or kind.description is None:
            return False
        from muster.engine.core.described_groups import DescribedKinds  # few clusters need it

        if self.kinds is None:
            self.kinds = DescribedKinds()
        return self.kinds.learn(kind)

    def await_kinds(
        self, kinds: Collection[type[ConfiguredApplication]], tasks: Mapping[str, Task]
    ) -> list[str]:
        """Notes that objects of these kinds are followed; returns the pods to group again."""
        self._awaited = frozenset(kind.__name__ for kind in kinds)
        return _without_group(tasks) if sum(self.learn(kind) for kind in kinds) else []  # not any(): learn each

    def follow(
        self, kind: str, key: str, before: Object | None, now: Object | None, tasks: Mapping[str, Task]
    ) -> list[str] | None:
        """Returns the pods to group again because an object came or went; None if only its gangs may have changed."""
        if now is not None and self.learn(type(now)):
            # Pods that came before the first object of the kind were grouped without its description.
            return _without_group(tasks)
        if before is None or now is None or _relation(before) != _relation(now):
            return self.pods_of(kind, key)
        return None

    def forget(self, pod_key: str) -> None:
        """Notes that a pod is gone, or will be grouped again."""
        if self.kinds is not None:
            self.kinds.forget(pod_key)

    def pods_of(self, kind: str, key: str) -> list[str]:
        return self.kinds.pods_of(kind, key) if self.kinds is not None else []

    def owner_of(self, job: Job) -> tuple[str, str] | None:
        """Returns kind and key of the object whose description makes a gang of the job's pods."""
        if self.kinds is None or not job.tasks:
            return None
        gang = self.kinds.gang_of(job.tasks[min(job.tasks)].pod, self._lookup)
        return None if gang is None else (type(gang.owner).__name__, f"{job.namespace}/{gang.owner.metadata.name}")

    def group_of(self, task: Task) -> str | Reason:
        """Returns the name of the group in memory of a pod, or why the pod waits for its owner. Sets the pod's role and
        sub-group."""
        task.sub_group = segment_name(task.pod)
        if self.kinds is None:
            return group_name(task.pod)
        gang = self.kinds.place(task.key, task.pod, self._lookup)
        if gang is not None:
            task.role = task.role or gang.role_of(task.pod)
            task.sub_group = gang.sub_group_of(task.pod)
            return gang.name
        missing = self.kinds.named_owner(task.pod)
        if missing is not None and missing[0] in self._awaited:
            text = f"{missing[0].partition('.')[0]} {missing[1]}, which describes its gang, is not known yet"
            return Reason("no-owner", text, resolvable=False)
        return group_name(task.pod)


def _without_group(tasks: Mapping[str, Task]) -> list[str]:
    return [name for name, task in tasks.items() if GROUP not in task.annotations]


def _relation(owner: Object) -> tuple[object, ...]:
    """What decides to which gang and segment of an owner its pods belong."""
    return owner.metadata.owner_references, owner.metadata.uid, owner.metadata.annotations
