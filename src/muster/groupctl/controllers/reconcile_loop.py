"""Runs controllers in a thread while this process leads: after a change, and when a controller asked to run again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.store import Store

# Changes come in crowds: so long is waited for the rest of one.
GATHER = 0.05
LONGEST = 60.0


class Controller(Protocol):
    """A controller."""

    def run(self) -> bool:
        """Do what is to be done now; whether anything was written."""
        ...

    def next_time(self) -> float | None:
        """When it will have something to do by itself; None if never."""
        ...


class ReconcileLoop:
    """`wake` may be called by any thread; `stop` ends `run` after the turn it is in."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.runs = 0
        self._now = now
        self._news = threading.Event()
        self._stopped = threading.Event()

    def wake(self, _: object = None) -> None:
        self._news.set()

    def stop(self) -> None:
        self._stopped.set()
        self._news.set()

    def run(self, make: Callable[[], Sequence[Controller]]) -> None:
        """Make the controllers, and let them work until stopped."""
        parts = make()
        while not self._stopped.is_set():
            self._news.clear()
            wrote = False
            for part in parts:
                wrote = part.run() or wrote
                self.runs += 1
                if self._stopped.is_set():
                    return
            if not wrote:
                self._news.wait(self._pause(parts))
                self._stopped.wait(GATHER)

    def _pause(self, parts: Sequence[Controller]) -> float:
        times = [time for part in parts if (time := part.next_time()) is not None]
        return min(max(min(times) - self._now(), 0.0), LONGEST) if times else LONGEST


STOP_TIMEOUT_S = 10.0  # seconds for a turn to end when its term does


async def run_controllers(
    client: Client, informers: Informers, recorder: Recorder, make: Callable[[Store], Sequence[Controller]],
    at_work: Callable[[ReconcileLoop | None], None],
) -> None:  # fmt: skip
    """Until cancelled, or until the rounds are stopped. `at_work` is told the rounds, and None when they end."""
    store = KubeStore(informers, Writes(client), recorder)
    loop = ReconcileLoop(store.clock.now)
    at_work(loop)
    informers.subscribe(loop.wake, replay=False)
    turning = asyncio.create_task(asyncio.to_thread(loop.run, partial(make, store)))
    try:
        await asyncio.shield(turning)
    except asyncio.CancelledError:
        loop.stop()
        await asyncio.wait([turning], timeout=STOP_TIMEOUT_S)
        raise
    finally:
        at_work(None)
        loop.stop()
        informers.unsubscribe(loop.wake)
        store.close()
