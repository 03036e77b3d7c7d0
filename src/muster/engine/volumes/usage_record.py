"""What the pods on the nodes of a state use, kept from cycle to cycle: only the pods that changed are read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from muster.engine.volumes.volume_claims import VolumeClaim, VolumeClaims, claim_name
from muster.engine.volumes.volume_usage import PodVolumes, VolumeUsage
from muster.model.pod_states import is_terminating

if TYPE_CHECKING:
    from muster.engine.core.jobs import Shape, Task
    from muster.engine.core.state import Objects, State

READ_KINDS = frozenset(("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode"))
_READER = "volumes"
_LEAST_KEPT = 4096
Read = tuple[str, str]  # kind and key of an object


class _Counted(NamedTuple):
    """A pod as it was counted."""

    volumes: PodVolumes
    node: int
    terminating: bool
    reads: list[Read]


class UsageRecord:
    """Nothing is counted before the first update."""

    def __init__(self) -> None:
        self._use: VolumeUsage | None = None  # of all pods on nodes
        self._staying: VolumeUsage | None = None  # without terminating pods; None: there were none
        self._counted: dict[str, _Counted] = {}  # by pod
        self._pods_of: dict[Read, dict[str, None]] = {}  # object → the pods whose counts depend on it
        self._outdated: dict[str, None] = {}  # pods whose objects changed

    def note(self, kind: str, key: str) -> None:
        """An object of one of `READ_KINDS` came, changed or went."""
        if kind in ("StorageClass", "CSINode"):
            self._use = None  # few and stable: everything is counted again
        else:
            self._outdated.update(self._pods_of.get((kind, key), ()))

    def limit_changes(self, state: State) -> None:
        """Forgets the counts if they were not read for long, so that no list of changes grows without end."""
        if len(state.changed_pods.get(_READER, ())) > _LEAST_KEPT + len(state.tasks):
            del state.changed_pods[_READER]

    def update(
        self, state: State, claims: VolumeClaims, uses_volumes: Callable[[Shape], bool]
    ) -> tuple[VolumeUsage, VolumeUsage]:
        """Returns what all pods use, and what those use that do not terminate; a cycle must undo what it adds."""
        nodes, use = state.nodes, self._use
        changed = state.changed_pods.get(_READER)
        if use is None or changed is None or use.nodes is not nodes:
            use = self._use = VolumeUsage(nodes, state.objects, claims)
            self._staying, self._counted, self._pods_of = None, {}, {}
            there: Iterable[Task] = (task for tasks in nodes.on for task in tasks.values())
        else:
            for usage in (use, self._staying):
                if usage is not None:
                    usage.read_from(state.objects, claims)
            outdated = {**changed, **self._outdated}
            for key in outdated:
                self._remove(use, key)
            found = (state.tasks.get(key) for key in outdated)
            there = [t for t in found if t is not None and t.node >= 0 and t.key in nodes.on[t.node]]
        state.changed_pods[_READER], self._outdated = {}, {}
        for task in there:
            if uses_volumes(task.shape):
                self._add(use, state.objects, claims, task)
        return use, use if self._staying is None else self._staying

    def _add(self, use: VolumeUsage, objects: Objects, claims: VolumeClaims, task: Task) -> None:
        one = _Counted(use.of(task, task.node), task.node, is_terminating(task.pod), list(_reads(claims, task)))
        if one.terminating and self._staying is None:
            self._staying = VolumeUsage(use.nodes, objects, claims)
            for other in self._counted.values():
                self._staying.add(other.volumes, other.node, 1)
        self._counted[task.key] = one
        for read in one.reads:
            self._pods_of.setdefault(read, {})[task.key] = None
        self._count(use, one, 1)

    def _remove(self, use: VolumeUsage, key: str) -> None:
        one = self._counted.pop(key, None)
        if one is None:
            return
        for read in one.reads:
            pods = self._pods_of.get(read, {})
            pods.pop(key, None)
            if not pods:
                self._pods_of.pop(read, None)
        self._count(use, one, -1)

    def _count(self, use: VolumeUsage, one: _Counted, sign: int) -> None:
        use.add(one.volumes, one.node, sign)
        if self._staying is not None and not one.terminating:
            self._staying.add(one.volumes, one.node, sign)


def _reads(claims: VolumeClaims, task: Task) -> Iterable[Read]:
    """Yields the objects that decide what the pod attaches, whether or not they exist."""
    for volume in task.pod.spec.volumes:
        name = claim_name(task.name, volume)
        if name is not None:
            key = f"{task.namespace}/{name}"
            yield "PersistentVolumeClaim", key
            claim = claims.get(key)
            if isinstance(claim, VolumeClaim):
                yield "PersistentVolume", claim.object.spec.volume_name
