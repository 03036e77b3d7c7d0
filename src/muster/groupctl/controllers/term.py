"""One term of controllers: a store over the informers, and turns in a thread until the term ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from muster.groupctl.controllers.rounds import Part, Rounds
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.store import Store

PATIENCE = 10.0  # seconds for a turn to end when its term does


async def turns(
    client: Client, informers: Informers, recorder: Recorder, make: Callable[[Store], Sequence[Part]],
    at_work: Callable[[Rounds | None], None],
) -> None:  # fmt: skip
    """Until cancelled, or until the rounds are stopped. `at_work` is told the rounds, and None when they end."""
    store = KubeStore(informers, Writes(client), recorder)
    rounds = Rounds(store.clock.now)
    at_work(rounds)
    informers.subscribe(rounds.wake, replay=False)
    turning = asyncio.create_task(asyncio.to_thread(rounds.run, partial(make, store)))
    try:
        await asyncio.shield(turning)
    except asyncio.CancelledError:
        rounds.stop()
        await asyncio.wait([turning], timeout=PATIENCE)
        raise
    finally:
        at_work(None)
        rounds.stop()
        informers.unsubscribe(rounds.wake)
        store.close()
