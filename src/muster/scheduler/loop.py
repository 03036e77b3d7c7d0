"""When cycles run: at once when something changed that may give a pending pod a node, else not before they are due.

Cycles run in a thread of their own, so that the event loop renews the lease, follows the watches, answers probes and
sends bindings while they do. Python's threads take turns: the switch interval is set so that the event loop waits for
its turn about as long as a call on the network takes.
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
from muster.process.garbage_collection import GarbageCollection
from muster.scheduler.binder import Binder
from muster.scheduler.decider import SOON, Decider, Decision
from muster.scheduler.inbox import Message, Observed
from muster.scheduler.metrics import Metrics
from muster.scheduler.queueing_hints import Hint
from muster.scheduler.status_writer import StatusWriter

T = TypeVar("T")

# Changes that come together are decided on together. A cycle's cost grows with the cluster, not with what changed: in
# a stream of new pods the cycles take a third of the time at most, the rest is for watches and bindings.
SHORTEST_GAP, LONGEST_GAP, GAP_PER_CYCLE = 0.05, 1.0, 2.0
# A cycle that decides little for its cost shows that the waiting pods cannot be served yet. Events that do not change
# that (pods that start, statuses) come in large numbers, and the next cycle considers them together.
GAP_PER_IDLE_CYCLE = 8.0
COST_PER_DECISION = 0.001
# A standby takes in what happened this often, in seconds: so much at most is left for the first cycle of its term.
STANDBY_GAP = 0.5
SWITCH_INTERVAL = 0.001
STUCK = 300.0


class Loop:
    """One term of a leader: from the first look at the cluster until cancelled."""

    def __init__(self, decider: Decider, metrics: Metrics) -> None:
        self._decider = decider
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")
        self._some = asyncio.Event()
        self._due: float | None = None
        self._gap = SHORTEST_GAP
        self._began: float | None = None  # when the running cycle began
        self.garbage_collection = GarbageCollection()
        self.loaded = False
        self.cycles = 0

    def put(self, message: Message) -> None:
        """Something happened."""
        self._decider.cache.put(message)
        self._some.set()

    def soon(self) -> None:
        """A cycle is wanted whatever happened."""
        self._due = time.monotonic()
        self._some.set()

    def stuck(self) -> str:
        """Nothing, or that the running cycle does not end."""
        began = self._began
        if began is not None and time.monotonic() > began + STUCK:
            return f"a cycle has been running for {time.monotonic() - began:.0f} s"
        return ""

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do it in the cycle thread, where the state may be touched."""
        self._began = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._began = None

    async def load(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        copies = {kind: dict(table) for kind, table in objects.items()}
        await self.in_thread(lambda: self._decider.load(copies))
        self.loaded = True
        self.soon()

    async def keep_up(self, stream: Stream) -> None:
        """Take in what happens without deciding, until cancelled: another replica leads."""
        while True:
            await stream.wait()
            self._take(stream)
            # Not the decider's own: what it counts and logs there is for the leader.
            await self.in_thread(self._decider.cache.take_in)
            self.garbage_collection.collect_if_due()
            await asyncio.sleep(STANDBY_GAP)

    def close(self) -> None:
        """A cycle that has begun ends by itself; what it decides is not carried out any more."""
        self._thread.shutdown(wait=False)

    async def run(self, stream: Stream, binder: Binder, writer: StatusWriter) -> None:
        """Follow the stream and decide, until cancelled."""
        self._take(stream)  # the first cycle knows what is known by now
        follow = asyncio.create_task(self._follow(stream))
        lag = asyncio.create_task(self._watch_lag())
        try:
            while True:
                await self._wait()
                self._some.clear()
                due, self._due = self._due, None
                decision, due = await self.in_thread(partial(self._turn, due))
                if decision is not None:
                    self._carry_out(decision, binder, writer)
                    if not decision.bound:
                        self.garbage_collection.collect_if_due()
                self._due = _earlier(self._due, due)
                await asyncio.sleep(self._gap)
        finally:
            follow.cancel()
            lag.cancel()
            self.close()

    async def _wait(self) -> None:
        left = None if self._due is None else max(self._due - time.monotonic(), 0.0)
        try:
            async with asyncio.timeout(left):
                await self._some.wait()
        except TimeoutError:
            return

    def _turn(self, due: float | None) -> tuple[Decision | None, float | None]:
        """In the cycle thread: take in what happened and, if it is time, decide; and when the next cycle is due."""
        weight = self._decider.take_in()
        if weight is Hint.SCHEDULE_NOW or (due is not None and time.monotonic() >= due):
            begin = time.thread_time()  # on a busy machine a cycle takes long, but costs the others no more
            decision = self._decider.cycle()
            cost = time.thread_time() - begin
            decided = decision.bound + sum(len(removal.victims) for removal in decision.commits.removals)
            per_cycle = GAP_PER_CYCLE if cost <= decided * COST_PER_DECISION else GAP_PER_IDLE_CYCLE
            self._gap = min(max(cost * per_cycle, SHORTEST_GAP), LONGEST_GAP)
            return decision, decision.due
        return None, _earlier(due, time.monotonic() + SOON) if weight is Hint.SCHEDULE_SOON else due

    def _carry_out(self, decision: Decision, binder: Binder, writer: StatusWriter) -> None:
        self.cycles += 1
        writer.drop(bind.key for commit in decision.commits.commits for bind in commit.binds)
        binder.start(decision.commits)
        writer.write(decision.notes)
        for place in decision.close:
            binder.close_journal(place)
        binder.look_at(decision.overdue)

    async def _follow(self, stream: Stream) -> None:
        while True:
            await stream.wait()
            self._take(stream)

    def _take(self, stream: Stream) -> None:
        for delta in stream.take():
            self.put(Observed(delta.kind, delta.key, delta.new))

    async def _watch_lag(self) -> None:
        """How late the event loop is: what lease renewals and probes would feel."""
        loop = asyncio.get_running_loop()
        while True:
            wanted = loop.time() + 0.1
            await asyncio.sleep(0.1)
            self._metrics.loop_lag.observe(max(loop.time() - wanted, 0.0))


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)
