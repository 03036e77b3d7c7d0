"""The device plugin of the Ascend nodes: keeps a node's list of free chips up to date as its pods start and end.

It moves only the chips that pods name, and only when a pod starts or ends: a list that the input got wrong stays as it
was written.
"""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.engine.devices.boards import ChipListError, lowest, read_chips, write_chips
from muster.model.core import Node, Pod
from muster.model.pod_states import is_finished
from muster.model.quantity import QuantityError, units
from muster.plugins.topology910.boards import FAULTY, PREFIX, RESOURCE, pod_chips
from muster.store import Change

_MAX_CHIPS = 64  # more than any board has


class DevicePlugin:
    """Acts on the pods it has seen start or end."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        boards = any(RESOURCE in node.metadata.annotations for node in store.of(Node).values())
        self._watch = store.watch(str(store.version), (Pod,)) if boards else None

    def run(self) -> bool:
        """Updates the lists; returns whether any changed."""
        if self._watch is None:
            return False
        ended: dict[str, int] = {}  # node → chips of pods that ended
        started: dict[str, int] = {}
        for event in self._watch.take():
            pod = event.object
            assert isinstance(pod, Pod)
            node, chips = pod.spec.node_name, _named(pod)
            if not node or not chips:
                continue
            if event.change == Change.DELETED or is_finished(pod):
                ended[node] = ended.get(node, 0) | chips
            elif pod.status.phase == "Running":
                started[node] = started.get(node, 0) | chips
        if not ended and not started:
            return False
        before = self._store.version
        used = self._used_chips(ended)
        for name in sorted({*ended, *started}):
            self._relist(name, ended.get(name, 0), started.get(name, 0), used.get(name, 0))
        return self._store.version != before

    def _used_chips(self, nodes: dict[str, int]) -> dict[str, int]:
        """Returns the chips that the pods of each node use."""
        used: dict[str, int] = {}
        for pod in self._store.of(Pod).values() if nodes else ():
            if pod.spec.node_name in nodes and not is_finished(pod):
                used[pod.spec.node_name] = used.get(pod.spec.node_name, 0) | _named(pod)
        return used

    def _relist(self, name: str, ended: int, taken: int, used: int) -> None:
        node = self._store.of(Node).get(name)
        if node is None or RESOURCE not in node.metadata.annotations:
            return
        notes = node.metadata.annotations
        try:
            old = read_chips(notes[RESOURCE], PREFIX, _MAX_CHIPS)
            faulty = read_chips(notes.get(FAULTY, ""), PREFIX, _MAX_CHIPS)
            offered = units(node.status.allocatable.get(RESOURCE, _MAX_CHIPS))
        except (ChipListError, QuantityError):
            return
        new = old & ~taken
        free = ended & ~used & ~faulty & ~new
        # A chip that failed under its pod is not offered any more, whether or not a list names it.
        new |= lowest(free, min(free.bit_count(), max(offered - ((new | used) & ~faulty).bit_count(), 0)))
        if new != old:
            annotations = {**notes, RESOURCE: write_chips(new, PREFIX)}
            self._store.write(replace(node, metadata=replace(node.metadata, annotations=annotations)))


def _named(pod: Pod) -> int:
    return pod_chips(pod.metadata.annotations, _MAX_CHIPS)
