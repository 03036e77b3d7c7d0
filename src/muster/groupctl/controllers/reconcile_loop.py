"""Runs controllers in a thread while this process leads: after a change, and when a controller asked to run again."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.process.application_kinds import Kinds
from muster.process.component import Component
from muster.store import Store

BATCH_DELAY_S = 0.05  # changes come in bursts: wait for the rest of one
MAX_IDLE_S = 60.0


class Controller(Protocol):
    """A controller."""

    def run(self) -> bool:
        """Does everything that is due now; whether anything was written."""
        ...

    def next_time(self) -> float | None:
        """When it will have work without a change of an object; None: never."""
        ...


class ReconcileLoop:
    """Runs controllers one after the other. `wake` is thread-safe; `stop` ends `run` after the current controller."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.runs = 0
        self._now = now
        self._changed = threading.Event()
        self._stopped = threading.Event()

    def wake(self, _: object = None) -> None:
        self._changed.set()

    def stop(self) -> None:
        self._stopped.set()
        self._changed.set()

    def run(self, make: Callable[[], Sequence[Controller]]) -> None:
        """Creates the controllers and runs them until stopped."""
        parts = make()
        while not self._stopped.is_set():
            self._changed.clear()
            wrote = False
            for part in parts:
                wrote = part.run() or wrote
                self.runs += 1
                if self._stopped.is_set():
                    return
            if not wrote:
                self._changed.wait(self._pause(parts))
                self._stopped.wait(BATCH_DELAY_S)

    def _pause(self, parts: Sequence[Controller]) -> float:
        times = [time for part in parts if (time := part.next_time()) is not None]
        return min(max(min(times) - self._now(), 0.0), MAX_IDLE_S) if times else MAX_IDLE_S


STOP_TIMEOUT_S = 10.0  # for the current run to end when the leadership term ends


class ControllerComponent(Component):
    """A component whose work while it leads is to run controllers; they are made again when the known kinds change."""

    _loop: ReconcileLoop | None = None

    @abstractmethod
    def _controllers(self, store: Store) -> Sequence[Controller]:
        """Creates the controllers, in the thread that runs them."""

    async def lead(self) -> None:
        while True:
            await self._run()

    async def _run(self) -> None:
        """Runs one set of controllers until cancelled or stopped."""
        informers = self.process.shared_informers
        store = KubeStore(informers, Writes(self.process.client), self.process.recorder)
        loop = self._loop = ReconcileLoop(store.clock.now)
        informers.subscribe(loop.wake, replay=False)
        turning = asyncio.create_task(asyncio.to_thread(loop.run, partial(self._controllers, store)))
        try:
            await asyncio.shield(turning)
        except asyncio.CancelledError:
            loop.stop()
            await asyncio.wait([turning], timeout=STOP_TIMEOUT_S)
            raise
        finally:
            self._loop = None
            loop.stop()
            informers.unsubscribe(loop.wake)
            store.close()

    async def kinds_changed(self, kinds: Kinds) -> None:
        if self._loop is not None:
            self._loop.stop()
