"""The difference between two simulations, by group: which pods are bound, moved, evicted, waiting or removed.

`muster plan` compares a cluster without and with new manifests; `muster simulate` compares two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.engine.core.jobs import Task
from muster.engine.core.plan import Eviction
from muster.groups.applications import owner_ref
from muster.model.pod_states import is_finished, is_terminating
from muster.sim.group_names import shown_group
from muster.sim.result import Result, plain_eviction

__all__ = ["Difference", "GroupDifference", "plain_groups", "same_pods"]

@dataclass(slots=True)
class GroupDifference:
    """What differs for the pods of one group between the first and the second simulation."""

    group: str  # namespace/name of the PodGroup, of the owner, or of a pod without one
    queue: str
    bound: dict[str, str] = field(default_factory=dict)  # has a node only in the second: pod → node
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)  # pod → its nodes in the first and the second
    evicted: list[Eviction] = field(default_factory=list)  # only in the second
    spared: list[Eviction] = field(default_factory=list)  # evicted only in the first
    waiting: dict[str, str] = field(default_factory=dict)  # pending only in the second: pod → why
    removed: dict[str, str] = field(default_factory=dict)  # bound in the first, absent from the second: pod → node

    def to_dict(self) -> dict[str, object]:
        return {
            "group": self.group,
            "queue": self.queue,
            "bound": self.bound,
            "moved": {pod: list(nodes) for pod, nodes in self.moved.items()},
            "evicted": [plain_eviction(eviction) for eviction in self.evicted],
            "spared": [plain_eviction(eviction) for eviction in self.spared],
            "waiting": self.waiting,
            "removed": self.removed,
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """Compares the ends of two simulations and the evictions on the way there."""

    first: Result
    second: Result

    @property
    def groups(self) -> list[GroupDifference]:
        """Returns the groups with a difference, sorted by name."""
        found: dict[str, GroupDifference] = {}
        owners = _Owners(self.first, self.second)

        def of(pod: str) -> GroupDifference:
            group, queue = owners.of(pod)
            return found.setdefault(group, GroupDifference(group, queue))

        named = same_pods(self.first, self.second)
        one = {named.get(pod, pod): node for pod, node in _nodes(self.first).items()}
        waited = {named.get(pod, pod) for pod in self.first.pending}
        two = _nodes(self.second)
        for pod in sorted({*one, *two}):
            match one.get(pod), two.get(pod):
                case None, str(node):
                    of(pod).bound[pod] = node
                case str(node), None if pod not in self.second.pending and pod not in self.second.state.tasks:
                    of(pod).removed[pod] = node
                case str(before), str(after) if before != after:
                    of(pod).moved[pod] = before, after
        for pod, reason in sorted(self.second.pending.items()):
            if pod not in waited:
                of(pod).waiting[pod] = reason
        gone, kept = ({eviction.pod for eviction in run.evictions} for run in (self.second, self.first))
        for eviction in self.second.evictions:
            if eviction.pod not in kept:
                of(eviction.pod).evicted.append(eviction)
        for eviction in self.first.evictions:
            if eviction.pod not in gone:
                of(eviction.pod).spared.append(eviction)
        for group in found.values():
            for eviction in group.evicted:
                group.removed.pop(eviction.pod, None)  # it is reported as evicted
        return [group for _, group in sorted(found.items())]

    def to_dict(self) -> dict[str, object]:
        """Returns the groups with a difference, and the number of pods of each kind."""
        return plain_groups(self.groups)


def plain_groups(groups: Sequence[GroupDifference]) -> dict[str, object]:
    """Returns what -o json has of the groups, with the number of pods of each kind of difference."""
    kinds = ("bound", "moved", "evicted", "spared", "waiting", "removed")
    counts = {kind: sum(len(getattr(group, kind)) for group in groups) for kind in kinds}
    return {"counts": counts, "groups": [group.to_dict() for group in groups]}


class _Owners:
    """Finds the group and the queue of a pod that exists in one of the two simulations, or will be created."""

    def __init__(self, first: Result, second: Result) -> None:
        self._runs = (second, first)
        self._absent: dict[str, str] = {}
        for run in self._runs:
            absent = run.cluster.missing_pods(run.state.ours)
            self._absent.update((pod, group) for pod, group, _ in absent if pod not in self._absent)

    def of(self, pod: str) -> tuple[str, str]:
        for run in self._runs:
            task: Task | None = run.state.tasks.get(pod)
            if task is not None:
                return shown_group(task), "" if task.job is None else task.job.queue_name
        group = self._absent.get(pod, pod)
        known = (run.state.jobs.get(group) for run in self._runs)
        return group, next((job.queue_name for job in known if job is not None), "")


def _nodes(result: Result) -> Mapping[str, str]:
    """Returns the node of every pod that has one at the end and is neither finished nor terminating."""
    return {
        key: task.pod.spec.node_name
        for key, task in result.state.tasks.items()
        if task.pod.spec.node_name and not is_finished(task.pod) and not is_terminating(task.pod)
    }


_RANDOM_NAMES = frozenset({"ReplicaSet", "ReplicationController", "Job"})
Place = tuple[str, str]  # pod, its node; "": none
Matches = Callable[[Place, Place], bool]
# In this order: equal in everything, on the same node, both without a node, both with one, any two.
_RULES: tuple[Matches, ...] = (
    lambda one, two: one == two,
    lambda one, two: one[1] == two[1],
    lambda one, two: bool(one[1]) == bool(two[1]),
    lambda one, two: True,
)


def same_pods(first: Result, second: Result) -> dict[str, str]:
    """Returns for each pod of the first run the pod of the second that stands for it, if that has another name."""
    one, two = _by_owner(first), _by_owner(second)
    found: dict[str, str] = {}
    for owner in one.keys() & two.keys():
        found.update(_pairs(one[owner], two[owner]))
    return found


def _pairs(one: list[Place], two: list[Place]) -> dict[str, str]:
    taken = {pod for pod, _ in two}
    pairs: dict[str, str] = {}
    for rule in _RULES:
        rest = []
        for place in one:
            match = next((other for other in two if rule(place, other)), None)
            if match is None:
                rest.append(place)
            else:
                two.remove(match)
                pairs[place[0]] = match[0]
        one = rest
    # A pod without a partner gets the name of a pod that has one, if its own name is now that of another pod.
    free = iter([pod for pod in pairs if pod not in taken])
    pairs.update((pod, next(free)) for pod, _ in one if pod in taken)
    return pairs


def _by_owner(run: Result) -> dict[tuple[str, str], list[Place]]:
    """Returns the pods that this run placed or left without a node, by the owner that gives them random names."""
    found: dict[tuple[str, str], list[Place]] = {}
    for key in sorted({*run.binds, *run.pending}):
        task: Task | None = run.state.tasks.get(key)
        owner = None if task is None else owner_ref(task.pod)
        if owner is not None and owner[0] in _RANDOM_NAMES:
            found.setdefault(owner, []).append((key, run.binds.get(key, "")))
    return found
