"""The embedded cluster: a store, a virtual clock, controllers and kubelets, and the execution of plans.

A simulation goes `follow(state)`, decide, `apply(plan)`, `step()`, and so on; when nothing more happens by itself at
this moment, `next_time()` says when something will and `advance` goes there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from muster.cluster import volcano_jobs
from muster.cluster.disruption import DisruptionController
from muster.cluster.kubelet import DevicePlugin, Kubelet
from muster.cluster.memory import MemoryStore, MemoryWatch, VirtualClock
from muster.cluster.owners import Garbage
from muster.cluster.volcano_jobs import VolcanoCronJobs
from muster.cluster.volume_controller import settle_claim
from muster.cluster.workloads import Workloads
from muster.cycle import plan_effects
from muster.cycle.plan_effects import PlanEvent
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.podgroups import GROUP
from muster.engine.core.state import State
from muster.model import volcano_job
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.model.pod_states import is_terminating
from muster.model.scheduling import PodGroup
from muster.store import ApiError, Change, WatchEvent


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

    def apply(self, plan: Plan) -> PlanOutcome:
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
        pods: dict[str, Object] = {}
        for (kind, key), event in last.items():
            if event.change == Change.DELETED:
                state.remove(kind, key)
            elif kind == "Pod":
                pods[key] = event.object
            else:
                state.upsert(kind, key, event.object)
        state.upsert_pods(pods)


class PlanOutcome(Struct):
    """The result of a plan: the pods that were bound and evicted, and what failed with its reason."""

    bound: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class PlanExecutor:
    """Applies a plan to the in-memory store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._count = 0
        # pods with a nomination, of the input and of the last plan without reasons
        self._nominated = {key for key, pod in store.of(Pod).items() if pod.status.nominated_node_name}

    def execute(self, plan: Plan) -> PlanOutcome:
        self._count += 1
        outcome = PlanOutcome()
        self._evict(plan.evictions, outcome)
        for key, node in plan.binds.items():
            self._bind(plan, key, node, outcome)
        self._update_pods(plan)
        self._update_groups(plan)
        return outcome

    def _record(self, events: Iterable[PlanEvent]) -> None:
        for event in events:
            self._store.event(*event)

    def _bind(self, plan: Plan, key: str, node: str, outcome: PlanOutcome) -> None:
        store = self._store
        try:
            for claim, values in plan.claims_of(key):
                settle_claim(store, claim, values.get("volumeName", ""), node)
            pod = store.bind(key, node, plan.annotations_of(key))
        except ApiError as error:
            outcome.failed[key] = str(error)
            waiting = store.of(Pod).get(key)
            if waiting is not None:
                self._record([plan_effects.binding_failed(waiting, str(error))])
            return
        outcome.bound[key] = node
        self._record(plan_effects.binding_events([(pod, node)], None))

    def _evict(self, evictions: list[Eviction], outcome: PlanOutcome) -> None:
        table = self._store.of(Pod)
        done: list[tuple[Eviction, Pod]] = []
        for eviction in evictions:
            key = eviction.pod
            pod = table.get(key)
            if pod is None or is_terminating(pod):
                outcome.failed[key] = "is gone or terminating already"
                continue
            self._store.evict(key, by=plan_effects.claimer_shown(eviction), rule=eviction.rule)
            outcome.evicted.append(key)
            done.append((eviction, pod))
        claimers = [pod for by in dict.fromkeys(e.by for e, _ in done) if (pod := table.get(by)) is not None]
        group_of = self._groups_of([*claimers, *(pod for _, pod in done)])
        self._record(plan_effects.victim_events(done, group_of))
        self._record(plan_effects.claimer_events([e for e, _ in done], claimers, group_of))

    def _groups_of(self, members: list[Pod]) -> dict[str, PodGroup]:
        table, found = self._store.of(PodGroup), {}
        for pod in members:
            key = key_of(pod)
            group = table.get(f"{key.partition('/')[0]}/{pod.metadata.annotations.get(GROUP, '')}")
            if group is not None:
                found[key] = group
        return found

    def _update_pods(self, plan: Plan) -> None:
        """Writes why each pending pod has no node, and the node that is kept for it."""
        store, now = self._store, self._store.clock.now()
        table = store.of(Pod)
        if not plan.reasons:
            self._nominate(plan)
        for key, reason in plan.reasons.items():
            pod = table.get(key)
            if pod is None or not plan_effects.gets_condition(pod):
                continue
            updated = plan_effects.unschedulable(pod, reason.text, plan_effects.nomination(plan, key), now)
            if updated is not pod:
                self._record([plan_effects.pending_event(store.write(updated), reason.text)])

    def _nominate(self, plan: Plan) -> None:
        """Writes only the nodes that are kept for pods: the plan has no reasons."""
        table = self._store.of(Pod)
        gone = self._nominated - plan.nominated.keys()
        for key, node in (*plan.nominated.items(), *((key, "") for key in sorted(gone))):
            pod = table.get(key)
            if pod is not None and not pod.spec.node_name and pod.status.nominated_node_name != node:
                self._store.write(replace(pod, status=replace(pod.status, nominated_node_name=node)))
        self._nominated = set(plan.nominated)

    def _update_groups(self, plan: Plan) -> None:
        table = self._store.of(PodGroup)
        for key in dict.fromkeys((*plan.phases, *plan.conditions)):
            group = table.get(key)
            if group is None:
                continue  # a group in memory has no object
            condition, now = plan.conditions.get(key), self._store.clock.now()
            status, is_new = plan_effects.group_status(group, plan.phases.get(key), condition, str(self._count), now)
            if status != group.status:
                group = self._store.write(replace(group, status=status))
            if condition is not None and is_new:
                self._record([plan_effects.group_event(group, condition)])
