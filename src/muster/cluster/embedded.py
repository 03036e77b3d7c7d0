"""The embedded cluster: a store, a virtual clock, controllers and kubelets, and the carrying out of plans.

A simulation goes `follow(state)`, decide, `apply(plan)`, `step()`, and so on; when nothing more happens by itself at
this moment, `next_time()` says when something will and `advance` goes there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from muster.cluster import volcano_jobs
from muster.cluster.chips import DevicePlugin
from muster.cluster.clock import VirtualClock
from muster.cluster.disruption import DisruptionController
from muster.cluster.kubelet import Kubelet
from muster.cluster.memory import MemoryStore, MemoryWatch
from muster.cluster.owners import Garbage
from muster.cluster.plan_executor import Outcome, PlanExecutor
from muster.cluster.volcano_cron_jobs import VolcanoCronJobs
from muster.cluster.workloads import Workloads
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.state import State
from muster.model import volcano_job
from muster.model.meta import Object
from muster.store import Change, WatchEvent


class Part(Protocol):
    """A controller of the embedded cluster."""

    def run(self) -> bool:
        """Does what is due now; returns whether anything was."""
        ...

    def next_time(self) -> float | None:
        """Returns when it will next act without a change; None if never."""
        ...


class EmbeddedCluster:
    """A cluster in this process. The input is as it was written: pods start and go only in later steps.

    With `all_pods`, workloads have all their pods, also those that would be created in later steps.
    """

    def __init__(
        self, objects: Mapping[str, Mapping[str, Object]], now: float, *, all_pods: bool = False
    ) -> None:
        self.clock = VirtualClock(now)
        self.store = MemoryStore(self.clock, (obj for group in objects.values() for obj in group.values()))
        self._kubelet = Kubelet(self.store, self.clock)
        self._garbage = Garbage(self.store)
        self._chips = DevicePlugin(self.store)
        self._disruption = DisruptionController(self.store)
        self._cron_jobs = VolcanoCronJobs(self.store, self.clock, at_once=all_pods)
        self._workloads = Workloads(self.store, all_pods=all_pods)
        self._executor = PlanExecutor(self.store)
        self._joined: list[Part] = []
        self.evicted: list[Eviction] = []  # by controllers that joined, until the caller takes them
        self._following: WeakKeyDictionary[State, MemoryWatch] = WeakKeyDictionary()
        self._cron_jobs.run()
        self._workloads.run()

    def join(self, part: Part) -> None:
        """Adds a controller; it runs now and in every step."""
        self._joined.append(part)
        part.run()

    def step(self) -> bool:
        """Runs kubelets and controllers until nothing changes at the current time; returns whether anything changed."""
        before = self.store.version
        parts: list[Part | Workloads | Garbage | DevicePlugin | DisruptionController] = [
            self._kubelet, self._cron_jobs, self._workloads, self._garbage, self._chips, self._disruption, *self._joined
        ]  # fmt: skip
        while sum(part.run() for part in parts):  # not any(): every part must run
            pass
        return self.store.version != before

    def missing_pods(self, ours: Collection[str]) -> Iterator[tuple[str, str, str]]:
        """Yields the pods for the schedulers of those names that do not exist yet: key, key of the PodGroup, and what
        they wait for; that is empty if the PodGroup is not admitted."""
        for _, job in sorted(self.store.of(volcano_job.Job).items()):
            yield from volcano_jobs.missing_pods(self.store, job, ours)

    def ignored_policies(self, evicted: Collection[str]) -> Iterator[str]:
        """Yields what the input asked the controllers to do after evictions, and they did not do."""
        yield from volcano_jobs.ignored_policies(self.store, evicted)

    def apply(self, plan: Plan) -> Outcome:
        """Applies the plan of a cycle."""
        return self._executor.execute(plan)

    def next_time(self) -> float | None:
        """Returns when something will next happen without a change; None if nothing will."""
        parts: list[Part] = [self._kubelet, self._cron_jobs, *self._joined]
        times = [part.next_time() for part in parts]
        return min((time for time in times if time is not None), default=None)

    def advance(self, to: float) -> bool:
        """Advances the clock and does what is due by then; returns whether anything changed."""
        self.clock.advance(to)
        return self.step()

    def follow(self, state: State) -> None:
        """Updates the engine's state: the first time with all objects, then with the changes."""
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
