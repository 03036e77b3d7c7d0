"""The PodGroup of pods that belong to a workload of a described kind (muster.workloads).

The engine keeps such a group in memory, and `muster pod-groups` writes the same one into the cluster. A pod set is a
role of the group (Volcano's minTaskMember); KAI's segments are sub-groups with a topology constraint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from muster.engine.core.podgroups import (
    MINIMUM_FIRST,
    QUEUE_NAME,
    GangSize,
    PodsByGroup,
    gang_record,
    give_segments,
    named_after,
    segment_of,
    segments,
)
from muster.groups.applications import Lookup, OwnerLoop, owner_chain, owner_ref
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.meta import Object, key
from muster.model.quantity import QuantityError
from muster.model.requests import requests
from muster.model.scheduling import PodGroup, SubGroup
from muster.workloads.description import KindDescription
from muster.workloads.workload import PodSet, Workload, description_of, read_workload

__all__ = ["DescribedGang", "DescribedKinds", "described_group"]

# Where an owner or a pod names its queue: Volcano, KubeRay's labels for Volcano, KAI.
_QUEUE_NAMES = (QUEUE_NAME, "volcano.sh/queue-name", "kai.scheduler/queue")


class DescribedGang(NamedTuple):
    """The owner of a pod, its description, and the value of the label that divides the owner's pods into gangs."""

    owner: ConfiguredApplication
    description: KindDescription
    value: str

    @property
    def name(self) -> str:
        """The name of its PodGroup."""
        meta = self.owner.metadata
        # An object of a manifest without a uid has its key there, which objects of other kinds may have, too.
        given = meta.uid not in ("", key(self.owner))
        whose = meta.uid if given else f"{self.description.kind.lower()}-{meta.name}"
        return named_after(f"{whose}-{self.value}" if self.value else whose)

    def role_of(self, pod: Pod) -> str:
        """Returns the pod set of a pod; empty if the kind has no label for it."""
        labels = pod.metadata.labels
        return next((labels[name] for name in self.description.pods.role_labels if name in labels), "")

    def sub_group_of(self, pod: Pod) -> str:
        """Returns the segment of a pod, which is a sub-group of its gang; empty if the pods have no segments."""
        notes = {**self.owner.metadata.annotations, **pod.metadata.annotations}
        return segment_of(pod, self.role_of(pod), self.description.pods.index_label, notes)


class DescribedKinds:
    """The described kinds that a cluster has objects of; finds the gang of a pod."""

    def __init__(self) -> None:
        self._names: dict[str, KindDescription] = {}  # by their names in object tables, sorted
        self._pods: PodsByGroup[tuple[str, str]] = PodsByGroup()  # kind and key of an object → pods it may own
        self._owners: dict[str, list[tuple[str, str]]] = {}  # key of a pod → those objects

    def __bool__(self) -> bool:
        return bool(self._names)

    def learn(self, kind: type[Object]) -> bool:
        """Notes the kind of an object; returns whether it is a described kind that was not known."""
        description = description_of(kind)
        if description is None:
            return False
        known = self._names.get(kind.__name__)
        if known is not description:
            self._names = dict(sorted({**self._names, kind.__name__: description}.items()))
        return known is not description

    def gang_of(self, pod: Pod, lookup: Lookup) -> DescribedGang | None:
        """Returns the gang of a pod whose owner is there; None if no description applies."""
        owner = self._by_labels(pod, lookup) or self._by_owners(pod, lookup)
        if owner is None:
            return None
        description = self._names[type(owner).__name__]
        label = description.pods.gang_label
        return DescribedGang(owner, description, pod.metadata.labels.get(label, "") if label else "")

    def group_of(self, pods: Sequence[Pod], lookup: Lookup) -> PodGroup | None:
        """Returns the group of pods of one gang, the oldest first; None if no description applies."""
        gang = self.gang_of(pods[0], lookup)
        return None if gang is None else described_group(gang, pods)

    def named_owner(self, pod: Pod) -> tuple[str, str] | None:
        """Returns kind and key of the described owner that a controlled pod names, there or not; None: no such."""
        owner = owner_ref(pod)
        if owner is None:
            return None
        if owner[0] in self._names:
            return owner
        return next(iter(self.owners_named(pod)), None)

    def place(self, pod_key: str, pod: Pod, lookup: Lookup) -> DescribedGang | None:
        """Returns the gang of a pod, and notes which objects' coming or going may change it."""
        owners = self.owners_named(pod) if pod.metadata.labels else []
        above = owner_ref(pod)
        while above is not None and above not in owners:
            owners.append(above)
            owner = lookup(*above)
            above = owner_ref(owner) if owner is not None else None
        self._owners[pod_key] = owners
        for one in owners:
            self._pods.put(one, pod_key)
        return self.gang_of(pod, lookup)

    def forget(self, pod_key: str) -> None:
        """Notes that a pod is gone."""
        for owner in self._owners.pop(pod_key, ()):
            self._pods.discard(owner, pod_key)

    def pods_of(self, kind: str, key: str) -> list[str]:
        """Returns the pods whose gang an object may decide."""
        return list(self._pods.get((kind, key), ()))

    def owners_named(self, pod: Pod) -> list[tuple[str, str]]:
        """Returns kind and key of the owners that the pod's labels name, whether they are there or not."""
        labels, namespace = pod.metadata.labels, pod.metadata.namespace or "default"
        return [
            (name, f"{namespace}/{labels[label]}")
            for name, one in self._names.items()
            for label in one.pods.owner_labels
            if label in labels
        ]

    def _by_labels(self, pod: Pod, lookup: Lookup) -> ConfiguredApplication | None:
        named = self.owners_named(pod) if pod.metadata.labels else []
        if len(named) > 1:
            # Kinds may share a label, as those of Kubeflow do: the controller decides.
            above = owner_ref(pod)
            named.sort(key=lambda owner: owner != above)
        for name, owner_key in named:
            found = lookup(name, owner_key)
            if isinstance(found, ConfiguredApplication):
                return found
        return None

    def _by_owners(self, pod: Pod, lookup: Lookup) -> ConfiguredApplication | None:
        """Returns the nearest owner of a described kind, along the path that its description gives."""
        if not pod.metadata.owner_references:
            return None
        try:
            chain = owner_chain(pod, lookup, self._names)
        except OwnerLoop:
            return None
        for i, owner in enumerate(chain[1:], 1):
            description = self._names.get(type(owner).__name__)
            if description is None or not isinstance(owner, ConfiguredApplication) or not description.pod_sets:
                continue
            between = tuple(type(one).__name__ for one in chain[1:i])
            if not description.pods.owner_path or description.pods.owner_path == between:
                return owner
        return None


def described_group(gang: DescribedGang, pods: Collection[Pod]) -> PodGroup:
    """Returns the group of the pods of one gang, of which these exist; the first pod is the oldest."""
    workload = read_workload(gang.owner, gang.description)
    present = _present(gang, workload, pods)
    minimum = _minimum(workload, present)
    first = next(iter(pods))
    least = {pod_set.name: pod_set.minimum for pod_set in present}
    roles = {name: least[name] for name in sorted(least) if least[name]} if gang.description.pods.role_labels else {}
    record = gang_record(
        gang.name, first, gang.owner, GangSize(minimum, _resources(present, minimum), roles),
        queue=workload.queue or _queue(gang.owner, first),
        priority_class=workload.priority_class_name or _class_of(present),
    )  # fmt: skip
    give_segments(record, list(_segments(gang, present)))
    if roles and any(pod_set.minimum < pod_set.count for pod_set in present):
        record.metadata.annotations[MINIMUM_FIRST] = "true"
    return record


def _present(gang: DescribedGang, workload: Workload, pods: Iterable[Pod]) -> list[PodSet]:
    """Returns the pod sets that count: a late one only once one of its pods exists."""
    if not any(pod_set.late for pod_set in workload.pod_sets):
        return workload.pod_sets
    if not gang.description.pods.role_labels:  # all of them, once there is more than the others have
        early = [pod_set for pod_set in workload.pod_sets if not pod_set.late]
        return early if len(list(pods)) <= sum(pod_set.count for pod_set in early) else workload.pod_sets
    seen = {gang.role_of(pod) for pod in pods}
    return [one for one in workload.pod_sets if not one.late or one.name in seen]


def _minimum(workload: Workload, present: list[PodSet]) -> int:
    if len(present) == len(workload.pod_sets):
        return workload.min_member
    return min(workload.min_member, sum(pod_set.minimum or pod_set.count for pod_set in present))


def _resources(present: list[PodSet], minimum: int) -> dict[str, int]:
    """Returns the requests of the smallest gang: the minimum of each pod set, then further pods in their order."""
    taken = [min(pod_set.minimum, pod_set.count) for pod_set in present]
    for i, pod_set in enumerate(present):
        taken[i] += max(min(minimum - sum(taken), pod_set.count - taken[i]), 0)
    total: dict[str, int] = {}
    for pod_set, number in zip(present, taken, strict=True):
        try:
            amounts = requests(pod_set.template.spec)
        except QuantityError:
            continue  # the API server refuses its pods; one bad workload must not stop the others
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + number * amount
    return total


def _class_of(present: list[PodSet]) -> str:
    return next((name for one in present if (name := one.template.spec.priority_class_name)), "")


def _segments(gang: DescribedGang, present: list[PodSet]) -> Iterable[SubGroup]:
    above = gang.owner.metadata.annotations
    if gang.description.pods.role_labels:
        for one in present:
            yield from segments(one.name, one.count, one.minimum, {**above, **one.template.metadata.annotations})
    elif present:
        # Without a label for roles, indices count through the whole gang.
        count, minimum = (sum(numbers) for numbers in zip(*((one.count, one.minimum) for one in present), strict=True))
        notes = {name: value for one in reversed(present) for name, value in one.template.metadata.annotations.items()}
        yield from segments("", count, minimum, {**above, **notes})


def _queue(owner: Object, pod: Pod) -> str:
    places = (owner.metadata.annotations, owner.metadata.labels, pod.metadata.annotations, pod.metadata.labels)
    return next((found for place in places for name in _QUEUE_NAMES if (found := place.get(name))), "")
