"""One active replica by a Lease: a part's work runs while the lease is held, and anew in every term."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import uuid4

from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.lease import Election
from muster.live.logs import Log

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


class Terms:
    """`await Terms(settings, log).run(client, work)`: until cancelled.

    `writes`: the work writes, so a new leader waits until whoever led before it has surely stopped.
    """

    def __init__(self, settings: LeaseSettings, log: Log, *, writes: bool = True) -> None:
        self.settings = settings
        self._log = log
        self._writes = writes
        self._election: Election | None = None

    def leading(self) -> bool:
        """May this process act now?"""
        if not self.settings.elect:
            return True
        election = self._election
        return election is not None and (election.may_write() if self._writes else election.leading())

    async def run(self, client: Client, work: Work) -> None:
        """Run the work in every term; it is cancelled when the lease is lost."""
        settings = self.settings
        if not settings.elect:
            await self._term(work)
            return
        # Lease calls have slots of their own: they never wait behind others.
        async with Client(client.access) as calm:
            election = self._election = Election(
                calm, settings.key, settings.identity, duration=settings.duration,
                renew_deadline=settings.renew_deadline, retry=settings.retry,
            )  # fmt: skip
            client.gate = election.may_write
            standing = asyncio.create_task(election.run())
            try:
                while True:
                    await (election.writable() if self._writes else election.elected.wait())
                    self._log(0, "leading", term=election.term)
                    term = asyncio.create_task(self._term(work))
                    lost = asyncio.create_task(election.lost.wait())
                    try:
                        await asyncio.wait([term, lost], return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for task in (term, lost):
                            task.cancel()
                        await asyncio.gather(term, lost, return_exceptions=True)
                    self._log(0, "no longer leading")
            finally:
                standing.cancel()
                await asyncio.gather(standing, return_exceptions=True)
                await election.release()

    async def _term(self, work: Work) -> None:
        """Begin anew after a fault of ours, and not at once."""
        backoff = Backoff(1.0, 60.0)
        while True:
            try:
                await work()
            except Exception as fault:
                trace = "".join(traceback.format_exception(fault))
                self._log(0, f"unexpected {type(fault).__name__}: {fault}; begins anew", trace=trace)
            await asyncio.sleep(backoff.next())
