"""Takes over from another leader: a warm standby, and a fence against its last bindings (docs/decisions/0016)."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from msgspec import Struct

from muster.kube.client import Client
from muster.kube.informers import Informers, Stream
from muster.kube.list_watch import Selection, list_all
from muster.kube.resources import resource_of
from muster.kube.writes import FENCE, Writes
from muster.model.core import Pod
from muster.model.meta import key as key_of
from muster.model.pod_states import is_terminating
from muster.process.logs import Log
from muster.scheduler.decider import Decider
from muster.scheduler.loop import Loop
from muster.store import errors

# A standby has no connections to write on yet: more of them would take longer to open than they save.
CONCURRENT_PATCHES = 16


class Fence:
    """Refuses the bindings that a former leader may still have on their way.

    A binding has the resourceVersion of the pod that was decided on. A new leader therefore changes every pending pod,
    by an annotation, before it decides: each binding of the former leader has then either arrived, and the answer shows
    it, or is refused by the API server. After `await Fence(…).close(token, seconds)` only this leader can bind, and
    `informers` have what others did.
    """

    def __init__(self, client: Client, informers: Informers, scheduler_names: Collection[str], log: Log) -> None:
        self._client = client
        self._writes = Writes(client)
        self._informers = informers
        self._scheduler_names = scheduler_names
        self._log = log
        self._slots = asyncio.Semaphore(CONCURRENT_PATCHES)
        self._highest = 0  # resourceVersion

    async def close(self, token: str, seconds: float) -> None:
        """Fences all pending pods. If one cannot be changed, it waits `seconds` instead: by then the calls of the
        former leader have ended, unless its process was stopped for as long.
        """
        begin, pods, why = time.monotonic(), 0, ""
        try:
            async with asyncio.timeout(seconds):
                found = await self._pending()
                pods = len(found)
                refusals = await asyncio.gather(*(self._mark(pod, token) for pod in found))
                why = next(filter(None, refusals), "")
        except errors.ApiError as error:
            why = str(error)
        except TimeoutError:
            why = f"not done after {seconds:g} s"
        await self._informers.reached(Pod, str(self._highest))
        took = time.monotonic() - begin
        if not why:
            self._log(0, "bindings of the former leader are refused", pods=pods, milliseconds=round(took * 1000))
            return
        left = max(seconds - took, 0.0)
        self._log(0, "some bindings of the former leader may not be refused; waits for their end", pods=pods,
                  seconds=round(left, 1), why=why)  # fmt: skip
        await asyncio.sleep(left)

    async def _pending(self) -> list[Pod]:
        """Lists the pending pods. Not from the watch: the former leader may have been ahead of it."""
        unassigned = Selection(resource_of(Pod), fields="spec.nodeName=")
        found, _ = await list_all(self._client, unassigned, self._log.report)
        return [pod for pod in found if isinstance(pod, Pod) and self._may_be_bound(pod)]

    def _may_be_bound(self, pod: Pod) -> bool:
        ours = pod.spec.scheduler_name in self._scheduler_names
        return ours and not pod.spec.scheduling_gates and not is_terminating(pod)

    async def _mark(self, pod: Pod, token: str) -> str:
        """Returns why the pod could not be changed, or an empty text."""
        merge = {"metadata": {"uid": pod.metadata.uid, "annotations": {FENCE: token}}}
        try:
            # Through the status, which the scheduler may patch; Kubernetes accepts annotations there, too.
            async with self._slots:
                marked = await self._writes.patch(Pod, key_of(pod), merge, sub="status")
        except (errors.NotFound, errors.Conflict):
            return ""  # it is gone
        except errors.ApiError as error:
            return str(error)
        version = marked.metadata.resource_version
        self._highest = max(self._highest, int(version) if version.isdecimal() else 0)
        return ""


class Ready(Struct, frozen=True):
    """What a leadership term needs to start; `stream` has the watch events since the cluster was loaded."""

    informers: Informers
    decider: Decider
    loop: Loop
    stream: Stream


class Standby:
    """Keeps a scheduler ready that `prepare` has loaded with the cluster, while another replica leads.

    If the leader dies, its successor uses these caches and need not read the cluster first.
    """

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
