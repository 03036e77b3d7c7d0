"""The PodGroup of pods that name none: what it is called, and what it requests.

The engine keeps such a group in memory; `muster pod-groups` writes the same one into the cluster, as
Volcano's controller does. Pods of one controller share a group, any other pod has a separate group. Its minimum is 1
unless the controller (a ReplicaSet has its Deployment's annotations), or else the pod, has an annotation. KAI's
annotations divide its pods into segments.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from muster.groups.applications import Lookup, OwnerLoop, owner_chain, owner_kind, replicas_of
from muster.model.batch import DaemonSet, Job, ReplicaSet, StatefulSet
from muster.model.core import Pod
from muster.model.meta import Object, ObjectMeta, OwnerReference, controller
from muster.model.meta import key as key_of
from muster.model.quantity import LARGEST, canonical, whole
from muster.model.scheduling import NetworkTopology, PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from muster.workloads import MIN_MEMBER_ANNOTATIONS

Name = TypeVar("Name", bound=Hashable)

GROUP = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
MINIMUM_FIRST = "muster.io/minimum-first"  # pods that the minimums of roles need are placed before others
NETWORK_MODE = "volcano.sh/network-topology-mode"
NETWORK_TIER = "volcano.sh/network-topology-highest-tier"
# KAI: pods with consecutive indices form a sub-group (segment) with a topology constraint of its own.
SEGMENT_SIZE = "kai.scheduler/segment-size"
_SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
_SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
_SEGMENT_TOPOLOGY = "kai.scheduler/topology"
# The owners whose annotations apply to the group of their pods.
OWNING: tuple[type[Object], ...] = (ReplicaSet, StatefulSet, DaemonSet, Job)

_OWNING = frozenset(kind.__name__ for kind in OWNING)
# What plugins read on a group. Volcano: annotations under volcano.sh/ are passed on.
_PASSED_ON = ("volcano.sh/", "kai.scheduler/topology", "sla-waiting-time", "muster.io/one-node-group", MINIMUM_FIRST)


# The label with the index of a pod, by which segments are cut.
_INDEX_LABELS = {"Job": "batch.kubernetes.io/job-completion-index", "StatefulSet": "apps.kubernetes.io/pod-index"}


def segment_name(pod: Pod) -> str:
    """The segment of a pod whose owner is of a kind that muster defines; empty if it has none."""
    owner = controller(pod.metadata) if SEGMENT_SIZE in pod.metadata.annotations else None
    return "" if owner is None else segment_of(pod, "", _INDEX_LABELS.get(owner.kind, ""), pod.metadata.annotations)


def group_name(pod: Pod) -> str:
    owner = controller(pod.metadata)
    whose = (owner.uid or owner.name) if owner else pod.metadata.uid or key_of(pod)
    return named_after(whose)


def groups_of(owner: Object) -> list[str]:
    """The keys that the group of the owner's pods may have."""
    namespace, _, name = key_of(owner).partition("/")
    names = dict.fromkeys((owner.metadata.uid or name, name))
    return [f"{namespace}/{named_after(whose)}" for whose in names]


def named_after(whose: str) -> str:
    """The name of the group of the pods of an owner with this uid or name."""
    return f"podgroup-{whose.replace('/', '-')}"  # a uid that the input does not give is `namespace/name`


def expected_owner(pod: Pod) -> tuple[str, str] | None:
    """Kind and key of the owner whose annotations apply to the pod's group; None: no such owner."""
    owner = controller(pod.metadata)
    if owner is None or (kind := owner_kind(owner)) not in _OWNING:
        return None
    return kind, f"{pod.metadata.namespace or 'default'}/{owner.name}"


def owner_of(pod: Pod, lookup: Lookup) -> Object | None:
    """That owner, if it is there."""
    if not pod.metadata.owner_references:
        return None
    try:
        chain = owner_chain(pod, lambda kind, key: lookup(kind, key) if kind in _OWNING else None)
    except OwnerLoop:
        return None
    return chain[1] if len(chain) > 1 else None


class GangSize(NamedTuple):
    """What a gang needs before any of its pods starts."""

    minimum: int
    resources: Mapping[str, int]  # the requests of so many pods
    roles: dict[str, int] = {}  # role → its minimum


def derived_group(pod: Pod, amounts: Mapping[str, int], owner: Object | None) -> PodGroup:
    """The group of a pod that requests these amounts; pods of one owner differ only in their annotations."""
    above = owner.metadata.annotations if owner is not None else {}
    sources = [notes for notes in (above, pod.metadata.annotations) if notes]
    given = [text for notes in sources for name in MIN_MEMBER_ANNOTATIONS if (text := notes.get(name))]
    members = _members(given[0]) if given else 1
    size = GangSize(members, amounts if members == 1 else {name: n * members for name, n in amounts.items()})
    record = gang_record(group_name(pod), pod, owner, size)
    if SEGMENT_SIZE in pod.metadata.annotations and owner is not None:
        count = replicas_of(owner) or members
        give_segments(record, segments("", count, members, {**above, **pod.metadata.annotations}))
    return record


def gang_record(
    name: str, pod: Pod, owner: Object | None, size: GangSize, *, queue: str = "", priority_class: str = ""
) -> PodGroup:
    """The PodGroup with the queue, priority and annotations of its oldest pod and its owner."""
    notes = {**(owner.metadata.annotations if owner is not None else {}), **pod.metadata.annotations}
    spec = PodGroupSpec(
        min_member=size.minimum,
        min_task_member=size.roles,
        queue=queue or pod.metadata.annotations.get(QUEUE_NAME) or "default",
        priority_class_name=priority_class or pod.spec.priority_class_name,
        min_resources={n: canonical(n, min(amount, LARGEST)) for n, amount in size.resources.items() if n != "pods"},
        network_topology=_network(pod.metadata.annotations),
    )
    meta = ObjectMeta(
        name=name,
        namespace=pod.metadata.namespace or "default",
        creation_timestamp=pod.metadata.creation_timestamp,
        annotations={name: notes[name] for name in sorted(notes) if name.startswith(_PASSED_ON)} if notes else {},
    )
    return PodGroup(metadata=meta, spec=spec)


def owners_of_group(pod: Pod) -> list[OwnerReference]:
    """What the written group goes with. Volcano: all owners of a pod that is controlled, else the pod itself.

    None of them waits for it: an owner that must wait may only be named by who may change that owner.
    """
    given = pod.metadata.owner_references
    if controller(pod.metadata) is None:
        meta = pod.metadata
        given = [OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)]
    return [replace(owner, block_owner_deletion=False) for owner in given]


def _members(text: str) -> int:
    """Volcano: what is no number of 32 bits, or below zero, is 1."""
    given = whole(text)
    return given if given is not None and 0 <= given < 2**31 else 1


def _network(notes: Mapping[str, str]) -> NetworkTopology | None:
    """Volcano: an invalid mode means hard, an invalid tier is left out."""
    if NETWORK_MODE not in notes and NETWORK_TIER not in notes:
        return None
    mode = notes.get(NETWORK_MODE, "").lower()
    return NetworkTopology(
        mode=mode if mode in ("hard", "soft") else "hard", highest_tier_allowed=whole(notes.get(NETWORK_TIER, ""))
    )


# --- segments


def segments(role: str, count: int, minimum: int, notes: Mapping[str, str]) -> list[SubGroup]:
    """Returns the sub-groups of so many pods of one role; none if the annotations request no segments."""
    size = _segment_size(notes)
    if not size:
        return []
    constraint = TopologyConstraint(
        topology=notes.get(_SEGMENT_TOPOLOGY, ""),
        required_topology_level=notes.get(_SEGMENT_REQUIRED, ""),
        preferred_topology_level=notes.get(_SEGMENT_PREFERRED, ""),
    )
    return [
        SubGroup(
            name=_segment_name(role, i),
            min_member=max(min(minimum - i * size, size), 0),
            topology_constraint=constraint,
        )
        for i in range(-(-count // size))
    ]


def give_segments(group: PodGroup, sub_groups: list[SubGroup]) -> None:
    """Gives a group its segments. A topology without a level for the whole group is then that of the segments only."""
    group.spec.sub_groups = sub_groups
    notes = group.metadata.annotations
    if sub_groups and not any(name.startswith(f"{_SEGMENT_TOPOLOGY}-") for name in notes):
        notes.pop(_SEGMENT_TOPOLOGY, None)


def segment_of(pod: Pod, role: str, index_label: str, notes: Mapping[str, str]) -> str:
    """Returns the name of the pod's segment; empty if it is in none."""
    size = _segment_size(notes)
    number = whole(pod.metadata.labels.get(index_label, "")) if size and index_label else None
    return "" if number is None else _segment_name(role, number // size)


def _segment_size(notes: Mapping[str, str]) -> int:
    return max(whole(notes.get(SEGMENT_SIZE, "")) or 0, 0)


def _segment_name(role: str, number: int) -> str:
    return f"{role or 'pods'}-segment-{number}"


class PodsByGroup(dict[Name, dict[str, None]]):
    """Group → the keys of its pods, in the order in which they came; without groups that have none."""

    def put(self, group: Name, pod: str) -> None:
        self.setdefault(group, {})[pod] = None

    def discard(self, group: Name, pod: str) -> None:
        pods = self.get(group, {})
        pods.pop(pod, None)
        if not pods:
            self.pop(group, None)
