"""The live scheduler driven by hand over the embedded cluster: every call can fail, be lost, or be the process's last.

The real cache, decider and binder; instead of the network a store in memory. A call can be refused before it has its
effect, or its answer be lost after it; a process killed at call k sends nothing more, and a new one takes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from builders.scheduler_objects import open_journals
from muster.cluster.embedded import EmbeddedCluster
from muster.cycle.configure import configure, default_configuration
from muster.kube.writes import FENCE
from muster.model.core import Pod, PodDisruptionBudget
from muster.model.meta import Condition, Object
from muster.model.meta import key as key_of
from muster.model.scheduling import PodGroup
from muster.model.selectors import matches
from muster.process.logs import Log
from muster.scheduler.binder import Binder
from muster.scheduler.cache import Cache
from muster.scheduler.cluster_metrics import drift
from muster.scheduler.configuration import LoadedConfig
from muster.scheduler.decider import Decider, Decision
from muster.scheduler.inbox import Observed
from muster.scheduler.metrics import Metrics
from muster.scheduler.status_writer import StatusWriter
from muster.store import Change, Conflict, NotFound, Severity, WatchEvent, errors

T = TypeVar("T", bound=Object)


class Faults:
    """Which calls go wrong. `before` and `after` are called for every call (its number, its verb, its object)."""

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        return None

    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return None

    def delay(self) -> float:
        """How long a call is on its way, and its answer. In seconds; use fakes.virtual_time."""
        return 0.0

    def late(self, verb: str, key: str) -> float:
        """If not 0, the call has its effect so many seconds after the scheduler stopped waiting for the answer."""
        return 0.0


class Killed(Exception):
    """The process died here."""


class KillAt(Faults):
    """kill -9 at call `number`: just before it is sent, or just after it had its effect."""

    def __init__(self, number: int, *, sent: bool) -> None:
        self.number, self.sent = number, sent

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        return Killed() if number == self.number and not self.sent else None

    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return Killed() if number == self.number and self.sent else None


class StoreCalls:
    """The calls of the live scheduler, answered by a store in memory."""

    def __init__(self, cluster: EmbeddedCluster, faults: Faults) -> None:
        self._store = cluster.store
        self._faults = faults
        self.made: list[tuple[str, str]] = []
        self.dead = False

    async def _call(self, verb: str, key: str, effect: Callable[[], T]) -> T:
        if self.dead:
            await asyncio.Event().wait()
        number = len(self.made)
        self.made.append((verb, key))
        self._raise(self._faults.before(number, verb, key))
        await self._travel()
        if late := self._faults.late(verb, key):
            asyncio.get_running_loop().call_later(late, self._late_effect, effect)
            raise errors.TimedOut(verb, "no answer")
        try:
            answer = effect()
        except NotFound as error:
            raise errors.NotFound(verb, str(error), code=404) from None
        except Conflict as error:
            raise errors.Conflict(verb, str(error), code=409) from None
        self._raise(self._faults.after(number, verb, key))
        if delay := self._faults.delay():
            await asyncio.sleep(delay)
        return answer

    def _late_effect(self, effect: Callable[[], object]) -> None:
        if not self.dead:  # the fence of the next leader keeps it out
            with suppress(errors.ApiError):
                effect()

    async def _travel(self) -> None:
        await asyncio.sleep(self._faults.delay())
        if self.dead:
            await asyncio.Event().wait()

    def _raise(self, error: Exception | None) -> None:
        if isinstance(error, Killed):
            self.dead = True
        if error is not None:
            raise error

    async def bind(
        self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str, version: str = "",
        fence: str = "",
    ) -> None:  # fmt: skip
        def effect() -> Pod:
            if self._store.get(Pod, key).metadata.annotations.get(FENCE, "") != fence:
                raise Conflict.of("Pod", key, "another leader has fenced it")
            try:
                return self._store.bind(key, node, annotations, uid=uid)
            except Conflict:
                pod = self._store.get(Pod, key)
                # As `Writes.bind`: it was our own earlier call.
                ours = (annotations or {}).items() <= pod.metadata.annotations.items()
                if pod.metadata.uid == uid and pod.spec.node_name == node and ours:
                    return pod
                raise

        await self._call("bind", key, effect)

    async def evict(self, key: str, *, uid: str, dry_run: bool = False, grace: int | None = None) -> None:
        def effect() -> Pod:
            pod = self._store.get(Pod, key)
            for budget in self._store.of(PodDisruptionBudget).values():
                covers = matches(budget.spec.selector, pod.metadata.labels)
                if covers and not budget.status.disruptions_allowed:
                    raise errors.BudgetRefused("evict", "Cannot evict pod as it would violate its budget.", code=429)
            if not dry_run:
                self._store.evict(key, by="", rule="", uid=uid)
            return pod

        await self._call("evict-dry" if dry_run else "evict", key, effect)

    async def pod_condition(
        self, key: str, condition: Condition, *, uid: str, version: str = "", nominated: str | None = None
    ) -> Pod:
        def effect() -> Pod:
            pod = self._store.get(Pod, key)
            if version and pod.metadata.resource_version != version:
                raise Conflict.of("Pod", key, "its resourceVersion is another")
            others = [c for c in pod.status.conditions if c.type != condition.type]
            status = replace(pod.status, conditions=[*others, condition])
            if nominated is not None:
                status = replace(status, nominated_node_name=nominated)
            return self._store.write(replace(pod, status=status))

        return await self._call("condition", key, effect)

    async def get(self, kind: type[T], key: str, api_version: str = "") -> T:
        return await self._call("get", key, lambda: self._store.get(kind, key))

    async def patch_status(
        self, kind: type[T], key: str, status: Mapping[str, Any], *, uid: str = "", version: str = ""
    ) -> T:
        return await self._call("status", key, lambda: self._store.patch(kind, key, {"status": status}, status=True))

    async def annotate(
        self, kind: type[T], key: str, annotations: Mapping[str, str | None], *, uid: str = "", version: str = ""
    ) -> T:
        merge = {"metadata": {"annotations": dict(annotations)}}
        return await self._call("annotate", key, lambda: self._store.patch(kind, key, merge))

    async def patch(
        self, kind: type[T], key: str, merge: Mapping[str, Any], *, sub: str = "", api_version: str = ""
    ) -> T:
        return await self._call("patch", key, lambda: self._store.patch(kind, key, merge))


class Leader:
    """One process that leads, over a cluster that outlives it."""

    def __init__(
        self, cluster: EmbeddedCluster, config: str = "", faults: Faults | None = None, holder: str = "first",
        loaded: LoadedConfig | None = None,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.calls = StoreCalls(cluster, faults or Faults())
        self.metrics = Metrics()
        self.events: list[tuple[str, str, str]] = []
        clock = cluster.clock.now
        self.cache = Cache(("muster",), clock)
        if loaded is None:
            loaded = LoadedConfig(configure(config, "test")[0] if config else default_configuration(), "test")
        self.decider = Decider(self.cache, loaded, holder, 10.0, self.metrics, Log(-1), clock, clock)
        self.binder = Binder(self.calls, self.cache.put, self._record, self.metrics, observe=self._observe)
        self.writer = StatusWriter(self.calls, self._record, self.metrics)
        self._watch = cluster.store.watch(str(cluster.store.version))
        self._late: list[WatchEvent] = []
        self._written: dict[tuple[str, str], int] = {}  # what was observed before the watch showed it: its version
        self.decider.load(cluster.store.everything())

    def _record(self, obj: Object, severity: Severity, reason: str, message: str) -> None:
        self.events.append((obj.metadata.name, reason, message))

    def _observe(self, obj: Object) -> None:
        kind, key = type(obj).__name__, key_of(obj)
        self._written[kind, key] = int(obj.metadata.resource_version)
        self.cache.put(Observed(kind, key, obj))

    def watch(self, at_most: int | None = None) -> None:
        """What the cluster did reaches the cache: all of it, or the next events."""
        self._late += self._watch.take()
        seen, self._late = self._late[:at_most], [] if at_most is None else self._late[at_most:]
        for event in seen:
            gone = event.change is Change.DELETED
            version = int(event.object.metadata.resource_version)
            if gone or version >= self._written.get((event.kind, event.key), 0):  # as an informer does it
                self.cache.put(Observed(event.kind, event.key, None if gone else event.object))

    def decide(self) -> Decision:
        self.decider.apply_messages()
        return self.decider.cycle()

    def begin(self) -> Decision:
        """One cycle; its calls are begun, and not waited for."""
        decision = self.decide()
        self.binder.start(decision.commits)
        for place in decision.closed_journals:
            self.binder.remove_journal(place)
        self.binder.poll(decision.overdue)
        return decision

    async def turn(self) -> Decision:
        """One cycle, carried out until nothing is in flight or the process is dead."""
        decision = self.begin()
        await self.landed()
        self.writer.write(decision.status_patches)
        writing = asyncio.create_task(self.writer.run())
        while self.writer.waiting and not self.calls.dead:
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        return decision

    async def landed(self) -> None:
        while self.binder.in_flight and not self.calls.dead:
            await asyncio.sleep(0)

    async def settle(self, cycles: int = 8) -> None:
        """Turns until nothing happens any more; kubelets and controllers act in between, time passes."""
        for _ in range(cycles):
            await self.turn()
            if self.calls.dead:
                return
            self.cluster.step()
            due = self.cluster.next_time()
            self.cluster.advance(self.cluster.clock.now() + 1.0 if due is None else due)
            self.watch()

    def assert_exact(self) -> None:
        """The accounts are those of a cache that was read just now."""
        self.decider.apply_messages()
        assert drift(self.cache.state) == 0
        fresh = Cache(("muster",))
        fresh.load(self.cluster.store.everything())
        mine, theirs = self.cache.state, fresh.state
        mine.refresh()
        assert mine.nodes.names == theirs.nodes.names
        for name in mine.nodes.names:
            here, there = _used(mine, name), _used(theirs, name)
            assert here == there, f"{name}: {here} is not {there}"
        assert {k: t.status for k, t in mine.tasks.items()} == {k: t.status for k, t in theirs.tasks.items()}
        assert self.cache.assumed == {}


def _used(state: Any, node: str) -> dict[str, int]:
    nodes = state.nodes
    i = nodes.rank[node]
    return {name: int(nodes.rows[row, i]) for name, row in nodes.axis.rows.items() if nodes.alloc[row, i]}


def assert_gangs_whole(cluster: EmbeddedCluster) -> None:
    """Every gang has its minimum or nothing, and no journal is open."""
    assert not open_journals(cluster.store.of(Pod).values())
    for key, group in cluster.store.of(PodGroup).items():
        members = [
            p for p in cluster.store.of(Pod).values()
            if p.metadata.annotations.get("scheduling.k8s.io/group-name") == group.metadata.name
            and p.spec.node_name and p.metadata.deletion_timestamp is None
        ]  # fmt: skip
        assert len(members) == 0 or len(members) >= group.spec.min_member, f"{key}: {len(members)} pods"
