"""The embedded cluster: a store, a virtual clock, controllers and kubelets, and the carrying out of plans.

A simulation goes `follow(state)`, decide, `apply(plan)`, `step()`, and so on; when nothing more happens by itself at
this moment, `next_time()` says when something will and `advance` goes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from muster.cluster.chips import DevicePlugin
from muster.cluster.clock import VirtualClock
from muster.cluster.disruption import DisruptionController
from muster.cluster.kubelet import Kubelet
from muster.cluster.memory import MemoryStore, MemoryWatch
from muster.cluster.owners import Garbage
from muster.cluster.plan_executor import Outcome, PlanExecutor
from muster.cluster.workloads import Workloads
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.state import State
from muster.model.meta import Object
from muster.store import Change, WatchEvent


class Part(Protocol):
    """A controller that takes part in the cluster's life."""

    def run(self) -> bool:
        """Do what is to be done now; whether anything was."""
        ...

    def next_time(self) -> float | None:
        """When it will have something to do by itself; None if never."""
        ...


class EmbeddedCluster:
    """A cluster in this process. The input is as it was written: pods start and go only in later steps."""

    def __init__(self, objects: Mapping[str, Mapping[str, Object]], now: float) -> None:
        self.clock = VirtualClock(now)
        self.store = MemoryStore(self.clock, (obj for group in objects.values() for obj in group.values()))
        self._kubelet = Kubelet(self.store, self.clock)
        self._garbage = Garbage(self.store)
        self._chips = DevicePlugin(self.store)
        self._disruption = DisruptionController(self.store)
        self._workloads = Workloads(self.store)
        self._executor = PlanExecutor(self.store)
        self._joined: list[Part] = []
        self.evicted: list[Eviction] = []  # by controllers that joined, for whoever tells the story to take
        self._following: WeakKeyDictionary[State, MemoryWatch] = WeakKeyDictionary()
        self._workloads.run()

    def join(self, part: Part) -> None:
        """Take in a controller; it has its turn in every step, and its first one now."""
        self._joined.append(part)
        part.run()

    def step(self) -> bool:
        """Let kubelets and controllers act until all is quiet at this moment; whether anything happened."""
        before = self.store.version
        parts: list[Part | Workloads | Garbage | DevicePlugin | DisruptionController] = [
            self._kubelet, self._workloads, self._garbage, self._chips, self._disruption, *self._joined
        ]  # fmt: skip
        while sum(part.run() for part in parts):  # not any(): each has its turn
            pass
        return self.store.version != before

    def apply(self, plan: Plan) -> Outcome:
        """Carry out what a cycle decided."""
        return self._executor.execute(plan)

    def next_time(self) -> float | None:
        """When something will happen by itself; None if nothing will."""
        times = [part.next_time() for part in (self._kubelet, *self._joined)]
        return min((time for time in times if time is not None), default=None)

    def advance(self, to: float) -> bool:
        """Move the clock on and let happen what is due by then; whether anything happened."""
        self.clock.advance(to)
        return self.step()

    def follow(self, state: State) -> None:
        """Bring the engine's state up to date: the first time everything is read, from then on what changed."""
        watch = self._following.get(state)
        if watch is None:
            self._following[state] = self.store.watch(str(self.store.version))
            state.load({kind: dict(sorted(group.items())) for kind, group in self.store.everything().items()})
            return
        last: dict[tuple[str, str], WatchEvent] = {}
        for event in watch.take():
            # Only what an object is now counts; it comes in the order of its last change.
            last.pop((event.kind, event.key), None)
            last[event.kind, event.key] = event
        for (kind, key), event in last.items():
            if event.change == Change.DELETED:
                state.remove(kind, key)
            else:
                state.upsert(kind, key, event.object)
