"""Decides when cycles run: at once after a change that may give a pending pod a node, otherwise when they are due.

Cycles run in their own thread, so that the event loop renews the lease, follows the watches, answers probes and sends
bindings at the same time. Python runs one thread at a time: the switch interval is set so that the event loop waits for
the cycle thread about as long as for a call on the network.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from muster.kube.informers import Stream
from muster.model.meta import Object
from muster.process.memory import GarbageCollection
from muster.scheduler.binder import Binder
from muster.scheduler.decider import FOLLOW_UP_DELAY_S, Decider, Decision
from muster.scheduler.inbox import Message, Observed
from muster.scheduler.metrics import Metrics
from muster.scheduler.queueing_hints import Hint
from muster.scheduler.status_writer import StatusWriter
from muster.store import Change

T = TypeVar("T")

# One cycle handles all changes that arrive within the gap. A cycle's cost grows with the cluster, not with the changes:
# in a stream of new pods the cycles take a third of the time at most, the rest is for watches and bindings. A pod that
# comes alone does not wait.
MIN_GAP_S, MAX_GAP_S, GAP_PER_CYCLE = 0.1, 1.0, 2.0
# After a cycle that binds this many pods more are probably on their way: fewer cycles take less CPU time. When no new
# pod has come for a moment, they have all arrived.
BURST_PODS, BURST_GAP_S, QUIET_S = 10, 0.25, 0.05
# A cycle that decides little for its cost shows that the pending pods cannot be served yet. Events that do not change
# that (pods that start, statuses) come in large numbers, and the next cycle considers them together.
GAP_PER_IDLE_CYCLE = 8.0
COST_PER_DECISION_S = 0.001
# A standby applies messages this often; at most so many are left for the first cycle of its term.
STANDBY_INTERVAL_S = 0.5
SWITCH_INTERVAL_S = 0.001
CYCLE_TIMEOUT_S = 300.0


class Loop:
    """The scheduling loop of one leadership term: from loading the cluster until cancelled."""

    def __init__(self, decider: Decider, metrics: Metrics) -> None:
        self._decider = decider
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")
        self._changed = asyncio.Event()
        self._due: float | None = None
        self._gap = self._burst_gap = MIN_GAP_S  # at least, and while new pods come
        self._new_pod_at = 0.0  # monotonic: when the watch showed the latest new pod
        self._burst_until = 0.0  # monotonic
        self._began: float | None = None  # when the running cycle began
        self.garbage_collection = GarbageCollection()
        self.loaded = False
        self.cycles = 0

    def put(self, message: Message) -> None:
        """Adds a message to the cache's inbox."""
        self._decider.cache.put(message)
        self._changed.set()

    def request_cycle(self) -> None:
        """Requests a cycle, whether or not anything has changed."""
        self._due = time.monotonic()
        self._changed.set()

    def in_burst(self) -> bool:
        """Returns whether many pods were bound a moment ago, so that the next cycle probably binds more."""
        return time.monotonic() < self._burst_until

    def stuck(self) -> str:
        """Returns an empty text, or that the running cycle does not end."""
        began = self._began
        if began is not None and time.monotonic() > began + CYCLE_TIMEOUT_S:
            return f"a cycle has been running for {time.monotonic() - began:.0f} s"
        return ""

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Runs `work` in the cycle thread, where the state may be changed."""
        self._began = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._began = None

    async def load(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        copies = {kind: dict(table) for kind, table in objects.items()}
        await self.in_thread(lambda: self._decider.load(copies))
        self.loaded = True
        self.request_cycle()

    async def keep_up(self, stream: Stream) -> None:
        """Applies messages without deciding, until cancelled: another replica leads."""
        while True:
            await stream.wait()
            self._take(stream)
            # Not the decider's method: it counts and logs, which only the leader does.
            await self.in_thread(self._decider.cache.apply_messages)
            self.garbage_collection.collect_if_due()
            await asyncio.sleep(STANDBY_INTERVAL_S)

    def close(self) -> None:
        """Stops the thread. A cycle that has begun ends by itself; its result is dropped."""
        self._thread.shutdown(wait=False)

    async def run(self, stream: Stream, binder: Binder, writer: StatusWriter) -> None:
        """Follows the stream and runs cycles, until cancelled."""
        self._take(stream)  # for the first cycle
        follow = asyncio.create_task(self._follow(stream))
        lag = asyncio.create_task(self._watch_lag())
        try:
            while True:
                await self._wait()
                self._changed.clear()
                due, self._due = self._due, None
                decision, due = await self.in_thread(partial(self._cycle_if_due, due))
                if decision is not None:
                    self._dispatch(decision, binder, writer)
                    if not decision.bound:
                        self.garbage_collection.collect_if_due()
                self._due = _earlier(self._due, due)
                await self._pause()
        finally:
            follow.cancel()
            lag.cancel()
            self.close()

    async def _wait(self) -> None:
        left = None if self._due is None else max(self._due - time.monotonic(), 0.0)
        try:
            async with asyncio.timeout(left):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _pause(self) -> None:
        """Waits for the gap between two cycles."""
        end = time.monotonic() + self._burst_gap
        await asyncio.sleep(self._gap)
        while (now := time.monotonic()) < (until := min(end, self._new_pod_at + QUIET_S)):
            await asyncio.sleep(until - now)

    def _cycle_if_due(self, due: float | None) -> tuple[Decision | None, float | None]:
        """Applies messages and runs a cycle if it is time, in the cycle thread; returns when the next cycle is due."""
        hint = self._decider.apply_messages()
        if hint is Hint.SCHEDULE_NOW or (due is not None and time.monotonic() >= due):
            begin = time.thread_time()  # not the elapsed time, which is longer on a busy machine
            decision = self._decider.cycle()
            cost = time.thread_time() - begin
            decided = decision.bound + sum(len(commit.victims) for commit in decision.commits.evictions)
            per_cycle = GAP_PER_CYCLE if cost <= decided * COST_PER_DECISION_S else GAP_PER_IDLE_CYCLE
            self._gap = min(max(cost * per_cycle, MIN_GAP_S), MAX_GAP_S)
            burst = decision.bound >= BURST_PODS
            self._burst_gap = max(self._gap, BURST_GAP_S if burst else 0.0)
            if burst:
                self._burst_until = time.monotonic() + 2 * self._burst_gap
            return decision, decision.due
        return None, _earlier(due, time.monotonic() + FOLLOW_UP_DELAY_S) if hint is Hint.SCHEDULE_SOON else due

    def _dispatch(self, decision: Decision, binder: Binder, writer: StatusWriter) -> None:
        self.cycles += 1
        writer.drop(binding.key for commit in decision.commits.bindings for binding in commit.bindings)
        binder.start(decision.commits)
        writer.write(decision.status_patches)
        for carrier in decision.closed_journals:
            binder.remove_journal(carrier)
        binder.poll(decision.overdue)

    async def _follow(self, stream: Stream) -> None:
        while True:
            await stream.wait()
            self._take(stream)

    def _take(self, stream: Stream) -> None:
        for delta in stream.take():
            if delta.change is Change.ADDED and delta.kind == "Pod":
                self._new_pod_at = time.monotonic()
            self.put(Observed(delta.kind, delta.key, delta.new))

    async def _watch_lag(self) -> None:
        """Measures how late the event loop is, which delays lease renewals and probes."""
        loop = asyncio.get_running_loop()
        while True:
            wanted = loop.time() + 0.1
            await asyncio.sleep(0.1)
            self._metrics.loop_lag.observe(max(loop.time() - wanted, 0.0))


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)
