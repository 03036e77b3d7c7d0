"""Carries orders out: many bindings in flight, a gang's journal around them.

Every binding ends in a word to the cache: accepted (the watch will show it), or surely not there (its room is free
again). Where no answer came, the pod is looked at until one does; till then it stays assumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from enum import Enum
from typing import Any

from muster.cycle import telling
from muster.kube.backoff import Backoff
from muster.kube.writes import FENCE
from muster.model.core import Pod
from muster.model.scheduling import PodGroup
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.commits import BindCommit, Commits, PodBinding
from muster.scheduler.evictor import Evictor
from muster.scheduler.inbox import BindRefused, CallResult, CommitFinished, Message, Observed
from muster.scheduler.journal import JOURNAL, JournalCarrier, written
from muster.scheduler.metrics import Metrics
from muster.scheduler.volumes import VolumeBinder, VolumesNotBound
from muster.store import Severity, errors

Put = Callable[[Message], None]
NAMED = 5  # assignments that the event of a gang names


class Bound(Enum):
    YES = "yes"
    NO = "no"  # surely not, and the pod may be tried again at once: it is the pod that changed
    REFUSED = "refused"  # surely not, and the same would be refused again


class Binder:
    def __init__(
        self, calls: SchedulerApi, put: Put, tell: RecordEvent, metrics: Metrics, *, claim_patience: float = 600.0
    ) -> None:
        self._calls = calls
        self._put = put
        self._tell = tell
        self._metrics = metrics
        self._claims = VolumeBinder(calls, claim_patience)
        self._remover = Evictor(calls, put, tell, metrics)
        self._running: set[asyncio.Task[object]] = set()

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def start(self, orders: Commits) -> None:
        """Begin; returns at once."""
        for commit in orders.commits:
            self._spawn(self._commit(commit))
        for removal in orders.removals:
            self._spawn(self._remover.remove(removal))

    def close_journal(self, place: JournalCarrier) -> None:
        self._spawn(self._close(place))

    def look_at(self, pods: dict[str, str]) -> None:
        """Ask the API server about pods that the watch should have told of by now."""
        for key in pods:
            self._spawn(self._look(key))

    async def finished(self, seconds: float) -> bool:
        """No new waits for claims, and wait until nothing is in flight; False if that took too long."""
        self._claims.give_up()
        if self._running:
            await asyncio.wait(list(self._running), timeout=seconds)
        return not self._running

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # --- commits

    async def _commit(self, commit: BindCommit) -> None:
        if commit.place is None:
            if await self._bind(commit.binds[0]) is Bound.YES:
                self._report(commit.binds[0])
            return
        try:
            carrier = await self._write_journal(commit.place, commit.journal)
        except errors.ApiError as error:
            for bind in commit.binds:
                self._failed(bind, f"the group's journal could not be written: {error}", Bound.REFUSED)
        else:
            results = await asyncio.gather(*(self._bind(_as_written(bind, carrier)) for bind in commit.binds))
            self._report_all(commit, [b for b, r in zip(commit.binds, results, strict=True) if r is Bound.YES])
            if all(result is Bound.YES for result in results):
                await self._close(commit.place)
        self._put(CommitFinished(commit.group))

    async def _write_journal(self, place: JournalCarrier, text: str | None) -> PodGroup | Pod:
        if place.kind is PodGroup:
            return await self._calls.annotate(PodGroup, place.key, {JOURNAL: text})
        # Through the status, which we may write to; the uid, because a pod can be made anew under its name.
        return await self._calls.patch(Pod, place.key, written(text, place.uid), sub="status")

    async def _close(self, place: JournalCarrier) -> None:
        try:
            await self._write_journal(place, None)
        except errors.ApiError:
            return  # a journal that stays is looked at again before a later cycle
        self._metrics.journals_closed.inc()

    # --- one binding

    async def _bind(self, bind: PodBinding) -> Bound:
        begin = time.monotonic()
        try:
            if bind.claims:
                await self._claims.provide(bind)
            version, fence = bind.pod.metadata.resource_version, _fence(bind.pod)
            await self._calls.bind(bind.key, bind.node, bind.notes, uid=bind.uid, version=version, fence=fence)
        except VolumesNotBound as why:
            return self._failed(bind, str(why), Bound.REFUSED)
        except (errors.Conflict, errors.NotFound) as error:
            await self._look(bind.key)
            return self._failed(bind, str(error), Bound.NO)
        except errors.ApiError as error:
            if not error.maybe_done:
                return self._failed(bind, str(error), Bound.REFUSED)
            pod = await self._look(bind.key)
            if pod is None or pod.metadata.uid != bind.uid or pod.spec.node_name != bind.node:
                return self._failed(bind, str(error), Bound.REFUSED)
        self._put(CallResult(bind.key, bind.uid, bind.node, True))
        self._metrics.bound(time.monotonic() - begin, bind.pod)
        return Bound.YES

    def _report(self, bind: PodBinding) -> None:
        self._tell(bind.pod, Severity.NORMAL, telling.SCHEDULED, telling.assigned(bind.key, bind.node))

    def _report_all(self, commit: BindCommit, bound: list[PodBinding]) -> None:
        """One event on the PodGroup; without one, an event on each pod."""
        if commit.about is None or len(bound) == 1:
            for bind in bound:
                self._report(bind)
        elif bound:
            nodes = len({bind.node for bind in bound})
            shown = ", ".join(f"{bind.key.partition('/')[2]} to {bind.node}" for bind in bound[:NAMED])
            text = f"Successfully assigned {len(bound)} pods to {nodes} node{'s'[: nodes != 1]}: {shown}"
            self._tell(commit.about, Severity.NORMAL, telling.SCHEDULED, text + ", …" * (len(bound) > NAMED))

    def _failed(self, bind: PodBinding, why: str, result: Bound) -> Bound:
        if result is Bound.REFUSED:
            self._put(BindRefused(bind.key, bind.uid, f"could not be bound to {bind.node}: {why}"))
        self._put(CallResult(bind.key, bind.uid, bind.node, False))
        self._metrics.bind_failures.inc()
        self._tell(bind.pod, Severity.WARNING, telling.FAILED_BINDING, why)
        return result

    async def _look(self, key: str) -> Pod | None:
        """The pod as the API server has it, told to the cache; asked until it answers."""
        backoff = Backoff(0.2, 10.0)
        while True:
            try:
                pod = await self._calls.get(Pod, key)
            except errors.NotFound:
                self._put(Observed("Pod", key, None, looked=True))
                return None
            except errors.ApiError as error:
                await asyncio.sleep(backoff.next(error.retry_after))
                continue
            self._put(Observed("Pod", key, pod, looked=True))
            return pod


def _as_written(bind: PodBinding, carrier: PodGroup | Pod) -> PodBinding:
    """With the version that the pod got by the journal, unless another leader has fenced it meanwhile."""
    if not isinstance(carrier, Pod) or carrier.metadata.uid != bind.uid or _fence(carrier) != _fence(bind.pod):
        return bind
    return replace(bind, pod=carrier)


def _fence(pod: Pod) -> str:
    return pod.metadata.annotations.get(FENCE, "")
