"""Leader election by a Lease: a component's work runs in every leadership term and is cancelled when the term ends."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.lease import Election
from muster.process.logs import Log
from muster.process.settings import LeaseSettings

Work = Callable[[], Awaitable[None]]
RESTART_FIRST_S, RESTART_LONGEST_S = 1.0, 60.0


def component_labels(part: str) -> dict[str, str]:
    """Returns the labels of everything that muster creates for a component."""
    return {
        "app.kubernetes.io/name": "muster", "app.kubernetes.io/component": part, "app.kubernetes.io/part-of": "muster",
    }  # fmt: skip


class LeaderElection:
    """`await LeaderElection(settings, log).run(client, work)`: until cancelled.

    `writes`: the work writes, so a new leader waits until its predecessor has surely stopped. `settle` off: it does not
    wait for calls that the predecessor has begun; the work refuses them itself if `taken_over`. `standby` is entered
    while another replica leads.
    """

    def __init__(
        self, settings: LeaseSettings, log: Log, *, writes: bool = True, settle: bool = True,
        standby: Callable[[Client], AbstractAsyncContextManager[object]] = nullcontext,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.annotations: dict[str, str] = {}
        """Of the Lease; a change is written with the next renewal."""
        self.unfinished = False
        """The last term ended with calls in flight: the lease is not given back but expires."""
        self._log = log
        self._writes = writes
        self._settle = settle
        self._standby = standby
        self._on_error = on_error
        self._election: Election | None = None

    def leading(self) -> bool:
        """Returns whether this process may act now."""
        if not self.settings.elect:
            return True
        election = self._election
        return election is not None and (election.may_write() if self._writes else election.leading())

    @property
    def taken_over(self) -> bool:
        """Whether the predecessor did not release the lease: calls that it has sent may still arrive."""
        return self._election is not None and self._election.taken_over

    @property
    def term(self) -> int:
        """The number of the leadership term; it grows with every new leader."""
        return self._election.term if self._election is not None else 0

    async def run(self, client: Client, work: Work) -> None:
        """Runs the work in every leadership term; the client writes only in one."""
        settings = self.settings
        if not settings.elect:
            await self._restarted(work)
            return
        # Lease calls have a separate client, so that they never wait behind other calls.
        async with Client(client.access) as lease_client:
            election = self._election = Election(
                lease_client, settings.key, settings.identity, duration=settings.duration,
                renew_deadline=settings.renew_deadline, retry=settings.retry, settle=self._settle,
                labels=component_labels(settings.part) if settings.part else None, annotations=self.annotations,
            )  # fmt: skip
            client.gate = election.may_write
            await election.step()  # usually that is enough, and no standby is needed
            renewing = asyncio.create_task(election.run())
            try:
                while True:
                    await self._elected(client, election)
                    self._log(0, "leading", term=election.term)
                    await run_until(election.lost, self._restarted(work))
                    self._log(0, "no longer leading")
            finally:
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)
                election.unfinished = self.unfinished
                await election.release()

    async def _elected(self, client: Client, election: Election) -> None:
        """Returns when this process leads and may act."""
        if not election.elected.is_set():
            async with self._standby(client):
                await election.elected.wait()
        if self._writes:
            await election.writable()

    async def _restarted(self, work: Work) -> None:
        """Starts the work again after an error of muster itself, with a back-off."""
        backoff = Backoff(RESTART_FIRST_S, RESTART_LONGEST_S)
        while True:
            try:
                await work()
            except Exception as fault:
                self._on_error()
                trace = "".join(traceback.format_exception(fault))
                self._log(0, f"unexpected {type(fault).__name__}: {fault}; starts again", trace=trace)
            await asyncio.sleep(backoff.next())


async def run_until(stop: asyncio.Event, *work: Coroutine[Any, Any, None], drain: Work | None = None) -> None:
    """Runs the coroutines until `stop` is set; awaits `drain` before it cancels them.

    None of them returns by itself: if one does or raises, that ends the others.
    """
    stopping = asyncio.create_task(stop.wait())
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()
    finally:
        if drain is not None:
            await drain()
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
