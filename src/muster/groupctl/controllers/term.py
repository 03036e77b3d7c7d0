"""One term of controllers: a store over the informers, and turns in a thread until the term ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from muster.groupctl.controllers.reconcile_loop import Controller, ReconcileLoop
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.store import Store

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
