"""One active replica by a Lease: a part's work runs while the lease is held, and anew in every term."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.lease import Election
from muster.process.logs import Log

Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """`elect` off: this process is the only one, and works at once."""

    key: str
    elect: bool = True
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{uuid4().hex[:8]}")
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)  # may change: written with the next renewal


class Terms:
    """`await Terms(settings, log).run(client, work)`: until cancelled.

    `writes`: the work writes, so a new leader waits until whoever led before it has surely stopped. `settle` off: it
    does not wait for calls that the former leader has begun, the work refuses them itself if `taken_over`.
    `standing_by` is entered while another leads.
    """

    def __init__(
        self, settings: LeaseSettings, log: Log, *, writes: bool = True, settle: bool = True,
        standing_by: Callable[[Client], AbstractAsyncContextManager[object]] = nullcontext,
        on_fault: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.unfinished = False
        """The work ended with calls in flight: the lease is not given back but runs out."""
        self._log = log
        self._writes = writes
        self._settle = settle
        self._standing_by = standing_by
        self._on_fault = on_fault
        self._election: Election | None = None

    def leading(self) -> bool:
        """May this process act now?"""
        if not self.settings.elect:
            return True
        election = self._election
        return election is not None and (election.may_write() if self._writes else election.leading())

    @property
    def taken_over(self) -> bool:
        """The former leader did not give the lease back: calls that it has begun may still arrive."""
        return self._election is not None and self._election.taken_over

    @property
    def term(self) -> int:
        return self._election.term if self._election is not None else 0

    async def run(self, client: Client, work: Work) -> None:
        """Run the work in every term; it is cancelled when the lease is lost."""
        settings = self.settings
        if not settings.elect:
            await self._anew(work)
            return
        # Lease calls have slots of their own: they never wait behind others.
        async with Client(client.access) as calm:
            election = self._election = Election(
                calm, settings.key, settings.identity, duration=settings.duration,
                renew_deadline=settings.renew_deadline, retry=settings.retry, settle=self._settle,
                labels=settings.labels, annotations=settings.annotations,
            )  # fmt: skip
            client.gate = election.may_write
            await election.step()  # most often that is all it takes, and nobody has to stand by
            standing = asyncio.create_task(election.run())
            try:
                while True:
                    await self._elected(client, election)
                    self._log(0, "leading", term=election.term)
                    await until(election.lost, self._anew(work))
                    self._log(0, "no longer leading")
            finally:
                standing.cancel()
                await asyncio.gather(standing, return_exceptions=True)
                election.unfinished = self.unfinished
                await election.release()

    async def _elected(self, client: Client, election: Election) -> None:
        """Until we lead and may act."""
        if not election.elected.is_set():
            async with self._standing_by(client):
                await election.elected.wait()
        if self._writes:
            await election.writable()

    async def _anew(self, work: Work) -> None:
        """Begin anew after a fault of ours, and not at once."""
        backoff = Backoff(1.0, 60.0)
        while True:
            try:
                await work()
            except Exception as fault:
                self._on_fault()
                trace = "".join(traceback.format_exception(fault))
                self._log(0, f"unexpected {type(fault).__name__}: {fault}; begins anew", trace=trace)
            await asyncio.sleep(backoff.next())


async def until(stop: asyncio.Event, *work: Coroutine[Any, Any, None], leave: Work | None = None) -> None:
    """Do the work until `stop` is set; `leave` comes before the work is cancelled.

    None of the work ends by itself: if some does that is a fault of ours, to be seen.
    """
    stopping = asyncio.create_task(stop.wait())
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()
    finally:
        if leave is not None:
            await leave()
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
