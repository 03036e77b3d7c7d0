"""The agents of all nodes: kubelets, and the device plugin of the Ascend nodes.

Kubelets start bound pods, remove deleted pods after their grace period, and finish pods. A bound pod runs at the next
step. A pod succeeds only if its annotation `muster.io/run-seconds` gives the seconds of virtual time after which it
does.

The device plugin keeps a node's list of free chips up to date as its pods start and end. It moves only the chips that
pods name, and only when a pod starts or ends: a list that the input got wrong stays as it was written.
"""

from __future__ import annotations

import heapq
import math

from msgspec.structs import replace

from muster.cluster import pods
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.engine.devices.boards import ChipListError, lowest, read_chips, write_chips
from muster.model.core import Node, Pod
from muster.model.meta import seconds
from muster.model.pod_states import is_finished, is_terminating
from muster.model.quantity import QuantityError, units
from muster.plugins.topology910.boards import FAULTY, PREFIX, RESOURCE, pod_chips
from muster.store import Change, Severity
from muster.store.event_reasons import EventReason

RUN_SECONDS = "muster.io/run-seconds"


class Kubelet:
    """Follows the pods in the store; `run` does what is due now."""

    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self._store = store
        self._clock = clock
        listing = store.list(Pod)
        self._watch = store.watch(listing.resource_version, (Pod, Node))
        self._seen: dict[str, None] = {}  # pods to look at
        self._waiting: dict[str, dict[str, None]] = {}  # node that is not there → pods bound to it
        self._due: list[tuple[float, str, str]] = []  # (when, pod, uid): a pod to look at then
        self._timed: set[str] = set()  # uids of pods whose length has been read
        for pod in listing.items:
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            if is_terminating(pod):
                self._plan_end(key, pod)
            else:
                self._seen[key] = None

    def run(self) -> bool:
        """Does what is due; returns whether anything was."""
        before = self._store.version
        for event in self._watch.take():
            if event.kind == "Pod" and event.change != Change.DELETED:
                self._seen[event.key] = None
            elif event.kind == "Node" and event.change == Change.ADDED:
                self._seen.update(self._waiting.pop(event.key, {}))
        now = self._clock.now()
        while self._due and self._due[0][0] <= now:
            self._seen[heapq.heappop(self._due)[1]] = None
        seen, self._seen = self._seen, {}
        table = self._store.of(Pod)
        for key in sorted(seen):
            pod = table.get(key)
            if pod is not None and (pod.spec.node_name or is_terminating(pod)):
                self._look(key, pod, now)
        return self._store.version != before

    def next_time(self) -> float | None:
        """Returns when something will next happen without a change; None if nothing will."""
        table = self._store.of(Pod)
        while self._due:
            when, key, uid = self._due[0]
            pod = table.get(key)
            if pod is not None and pod.metadata.uid == uid and not is_finished(pod):
                return when
            heapq.heappop(self._due)
        return None

    def _look(self, key: str, pod: Pod, now: float) -> None:
        if is_terminating(pod):
            if self._end(pod) <= now:
                self._store.remove(Pod, key)
            else:
                self._plan_end(key, pod)
            return
        if pod.status.phase in ("", "Pending"):
            if pod.spec.node_name not in self._store.of(Node):
                self._waiting.setdefault(pod.spec.node_name, {})[key] = None
                return
            pod = self._store.write(pods.running(pod, now))
        if pod.status.phase == "Running" and RUN_SECONDS in pod.metadata.annotations:
            self._finish(key, pod, now)

    def _finish(self, key: str, pod: Pod, now: float) -> None:
        known = pod.metadata.uid in self._timed
        self._timed.add(pod.metadata.uid)
        length = _length(pod.metadata.annotations[RUN_SECONDS])
        if length is None:
            if not known:
                text = f"annotation {RUN_SECONDS} is not a number of seconds; the pod runs on"
                self._store.event(pod, Severity.WARNING, EventReason.BAD_ANNOTATION, text)
            return
        start = pod.status.start_time
        when = (self._clock.start if start is None else seconds(start)) + length
        if when <= now:
            self._store.write(pods.succeeded(pod, now))
        elif not known:
            heapq.heappush(self._due, (when, key, pod.metadata.uid))

    def _end(self, pod: Pod) -> float:
        """Returns when a terminating pod is removed."""
        end = seconds(pod.metadata.deletion_timestamp)
        # A pod that was terminating in the input stays so at first: it is removed when the clock first advances.
        return end if end > self._clock.start else self._clock.start + 1

    def _plan_end(self, key: str, pod: Pod) -> None:
        heapq.heappush(self._due, (self._end(pod), key, pod.metadata.uid))


def _length(text: str) -> float | None:
    try:
        length = float(text)
    except ValueError:
        return None
    return length if math.isfinite(length) and length >= 0 else None


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
