"""The warm standby: while another replica leads, the caches are filled and follow the cluster.

A leader that takes over from a dead one uses these caches and need not read the cluster first.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from muster.kube.client import Client
from muster.kube.informers import Informers, Stream
from muster.process.logs import Log
from muster.scheduler.decider import Decider
from muster.scheduler.loop import Loop


@dataclass(frozen=True, slots=True)
class Ready:
    """What a leadership term needs to start; `stream` has the watch events since the cluster was loaded."""

    informers: Informers
    decider: Decider
    loop: Loop
    stream: Stream


class Standby:
    """Keeps a scheduler ready that `prepare` has loaded with the cluster."""

    def __init__(
        self, prepare: Callable[[Client], AbstractAsyncContextManager[Ready]], log: Log, on_fault: Callable[[], None]
    ) -> None:
        self._prepare = prepare
        self._log = log
        self._on_fault = on_fault
        self._stack: AsyncExitStack | None = None
        self._ready: Ready | None = None

    @asynccontextmanager
    async def while_another_leads(self, client: Client) -> AsyncIterator[None]:
        """Loads the cluster and follows it. The result is kept for the next term."""
        await self.end()
        following = asyncio.create_task(self._follow(client))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self, client: Client) -> None:
        self._stack = AsyncExitStack()
        try:
            ready = self._ready = await self._stack.enter_async_context(self._prepare(client))
            await ready.loop.keep_up(ready.stream)
        except Exception as fault:
            # The next term then reads the cluster again, and fails itself if the error persists.
            self._ready = None
            self._on_fault()
            trace = "".join(traceback.format_exception(fault))
            self._log(0, f"unexpected {type(fault).__name__}: {fault}; no longer ready to take over", trace=trace)

    @asynccontextmanager
    async def for_term(self, client: Client, *, warm: bool) -> AsyncIterator[Ready]:
        """Yields what the standby has kept, if `warm`; otherwise the cluster is read now."""
        if not warm or self._ready is None:
            await self.end()
            async with self._prepare(client) as ready:
                yield ready
            return
        try:
            yield self._ready
        finally:
            await self.end()

    async def end(self) -> None:
        stack, self._stack, self._ready = self._stack, None, None
        if stack is not None:
            await stack.aclose()
