"""Plays the load of the eviction churn against an API server and records what the watch shows of every pod.

The load generator is also the owner of the pods: it replaces evicted pods and deletes a gang when its run time is over.
Arrivals and run times follow the load's own clock, which stops while the API server is behind with creations: a slow
machine makes the run longer, and the load stays at 130 % of the capacity. What is judged is real time.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Coroutine, Iterable
from contextlib import aclosing, suppress

from live.api import Plain, collection, place
from live.eviction_check import BOUND, CREATED, GONE, TERMINATING, USEFUL_WITHIN_S, PodEvent, Run
from live.eviction_load import GANG_LABEL, Gang, Single
from muster.kube import Client
from muster.kube.list_watch import Selection, list_all, watch
from muster.kube.resources import resource_of
from muster.model.core import Pod
from muster.model.pod_states import EVICTED_BY, EVICTED_RULE
from muster.store import Change, errors

# The scheduler and the API server share the machine with the load generator: its calls come few at a time.
_CALLS_AT_ONCE = 6
_URGENT_CALLS_AT_ONCE = 2  # apart, so that plain pods do not wait until a large gang is created
_MOST_WAITING = 64  # creations that wait for the API server while the load's clock runs: a large gang
_TICK_S = 0.1
_NOW = {"gracePeriodSeconds": 0}


class Churn:
    """One run. `play` returns when the load is over and the evictions of that time are judged."""

    def __init__(self, client: Client, namespace: str, gangs: Iterable[Gang], singles: Iterable[Single]) -> None:
        self.run = Run()
        self._client, self._namespace = client, namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._gangs = {gang.name: gang for gang in gangs}
        self._singles = {single.name: single for single in singles}
        self.run.minimum = {gang.name: gang.minimum for gang in self._gangs.values()}
        self.run.urgent = set(self._singles)
        self._begin = 0.0
        self._clock = 0.0  # of the load
        self._waiting = 0
        self._calls = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._urgent_calls = asyncio.Semaphore(_URGENT_CALLS_AT_ONCE)
        self._bound: dict[str, set[str]] = {name: set() for name in self._gangs}  # not terminating
        self._known: dict[str, str] = {}  # pod → its last event
        self._ends: list[tuple[float, str]] = []  # when a run time is over, by the load's clock; a heap
        self._end_of: dict[str, float] = {}  # job → its entry above that counts
        self._replaced = 0
        self._arriving = True

    async def play(self, seconds: float) -> None:
        self._begin = time.monotonic()
        async with asyncio.TaskGroup() as self._tasks:
            work = [self._tasks.create_task(self._watch()), self._tasks.create_task(self._tick())]
            await self._arrivals(seconds)
            self._arriving = False
            await self._last_evictions()
            self.run.end = self._now()
            for task in work:
                task.cancel()

    def _now(self) -> float:
        return time.monotonic() - self._begin

    async def _arrivals(self, seconds: float) -> None:
        arriving: list[Gang | Single] = [*self._gangs.values(), *self._singles.values()]
        for one in sorted(arriving, key=lambda one: one.arrives):
            await self._until(one.arrives)
            if isinstance(one, Gang):
                self._go(self._create_gang(one))
            else:
                self._go(self._create(one.pod(self._namespace), self._urgent_calls))
        await self._until(seconds)

    async def _until(self, clock: float) -> None:
        while self._clock < clock:
            await asyncio.sleep(_TICK_S / 2)

    async def _tick(self) -> None:
        last = self._now()
        while True:
            await asyncio.sleep(_TICK_S)
            before, last = last, self._now()
            if self._waiting <= _MOST_WAITING:
                self._clock += last - before
            while self._ends and self._ends[0][0] <= self._clock:
                end, job = heapq.heappop(self._ends)
                if self._end_of.get(job) == end:
                    self.run.finished[job] = self._now()
                    gang = self._gangs.get(job)
                    self._go(self._delete(f"{self._pods}/{job}") if gang is None else self._delete_gang(gang))

    async def _last_evictions(self) -> None:
        """Until the claimers of all evictions so far are bound, or their time is over."""
        made = self._now()
        while self._now() < made + USEFUL_WITHIN_S:
            claimers = {event.by for event in self.run.events if event.what == TERMINATING and event.by}
            if all(self._known.get(pod) != CREATED for pod in claimers):
                return
            await asyncio.sleep(1)

    # --- what the load generator does

    def _go(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.create_task(work)

    async def _create_gang(self, gang: Gang) -> None:
        await self._create(gang.group(self._namespace))
        for i in range(gang.size):
            self._go(self._create(gang.pod(self._namespace, f"{gang.name}-{i}")))

    async def _create(self, obj: Plain, calls: asyncio.Semaphore | None = None) -> None:
        self._waiting += 1
        async with calls or self._calls:
            await self._client.request("POST", collection(obj), body=obj)
        self._waiting -= 1

    async def _replace(self, gang: Gang) -> None:
        if gang.name not in self.run.finished and self._arriving:
            self._replaced += 1
            await self._create(gang.pod(self._namespace, f"{gang.name}-r{self._replaced}"))

    async def _delete(self, path: str, selector: str = "") -> None:
        params = {"labelSelector": selector} if selector else None
        async with self._calls:
            with suppress(errors.NotFound):  # it was evicted meanwhile
                await self._client.request("DELETE", path, params=params, body=_NOW, seconds=60)

    async def _delete_gang(self, gang: Gang) -> None:
        await self._delete(self._pods, f"{GANG_LABEL}={gang.name}")
        await self._delete(place(gang.group(self._namespace)))

    def _end_after(self, seconds: float, job: str) -> None:
        self._end_of[job] = self._clock + seconds
        heapq.heappush(self._ends, (self._end_of[job], job))

    # --- what the watch shows

    async def _watch(self) -> None:
        selection = Selection(resource_of(Pod), self._namespace)
        _, since = await list_all(self._client, selection, print)
        while True:  # the API server ends a watch that is read too slowly
            with suppress(errors.Unreachable, errors.BadAnswer):
                async with aclosing(watch(self._client, selection, since, print)) as batches:
                    async for steps in batches:
                        for step in steps:
                            since = step.resource_version
                            if isinstance(step.object, Pod):
                                self._see(step.change, step.object)

    def _see(self, change: Change | None, pod: Pod) -> None:
        name, notes = pod.metadata.name, pod.metadata.annotations
        gang = self._gangs.get(pod.metadata.labels.get(GANG_LABEL, ""))
        if name not in self._known:
            self._record(CREATED, name, gang)
            if gang is not None and gang.name in self.run.finished:
                self._go(self._delete(f"{self._pods}/{name}"))
        if pod.spec.node_name and self._known[name] == CREATED:
            self._record(BOUND, name, gang)
            self._on_bound(name, gang)
        if (pod.metadata.deletion_timestamp or change is Change.DELETED) and self._known[name] in (CREATED, BOUND):
            evicted = EVICTED_BY in notes and (name if gang is None else gang.name) not in self.run.finished
            by = notes[EVICTED_BY].rpartition("/")[2] if evicted else ""
            self._record(TERMINATING, name, gang, by, notes.get(EVICTED_RULE, "") if evicted else "")
            self._on_terminating(name, gang)
        if change is Change.DELETED:
            self._record(GONE, name, gang)
            if gang is not None:
                self._go(self._replace(gang))

    def _record(self, what: str, name: str, gang: Gang | None, by: str = "", rule: str = "") -> None:
        self._known[name] = what
        self.run.events.append(PodEvent(self._now(), what, name, name if gang is None else gang.name, by, rule))

    def _on_bound(self, name: str, gang: Gang | None) -> None:
        if gang is None:
            self._end_after(self._singles[name].runs_for, name)
            return
        self._bound[gang.name].add(name)
        if len(self._bound[gang.name]) == gang.minimum:
            self._end_after(gang.runs_for, gang.name)

    def _on_terminating(self, name: str, gang: Gang | None) -> None:
        if gang is None:
            return
        self._bound[gang.name].discard(name)
        if len(self._bound[gang.name]) < gang.minimum:
            self._end_of.pop(gang.name, None)  # its run time begins anew once it has its minimum again
