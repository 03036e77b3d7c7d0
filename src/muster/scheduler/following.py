"""The configuration while the scheduler runs: followed where it is found, and what became of it told where users look.

Whether this replica uses what it was given is a condition of its own pod, which goes with it; a configuration that was
refused, or used in place of another, is an Event of the ConfigMap, else of the pod. Every replica says it for itself,
so these calls ask for no lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing, suppress

from muster.kube import errors
from muster.kube.backoff import Backoff
from muster.model.core import Pod
from muster.model.meta import Condition
from muster.process.config_sources import Source
from muster.process.logs import Log
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.metrics import Metrics
from muster.scheduler.reload import Loaded, Reloader, Unusable, Verdict, checked
from muster.store import Severity
from muster.store.clock import timestamp

CONDITION = "muster.io/ConfigurationValid"
USED, REFUSED = "ConfigurationUsed", "ConfigurationRefused"


class Following:
    """`first` where nothing has been read yet; then `run` as a task. `pod` is our own, or empty outside a cluster."""

    def __init__(
        self, source: Source, pod: str, calls: SchedulerApi, tell: RecordEvent, metrics: Metrics, log: Log
    ) -> None:
        self._source = source
        self._pod = pod
        self._calls = calls
        self._tell = tell
        self._metrics = metrics
        self._log = log
        self._verdicts: asyncio.Queue[Verdict] = asyncio.Queue()
        self._us: Pod | None = None

    async def first(self) -> Loaded:
        """The configuration to begin with. Without one there is nothing to go on with: Unusable."""
        try:
            return checked(await self._source.now())
        except Unusable as why:
            verdict = Verdict("none", str(why))
            self._event(verdict)
            with suppress(errors.ApiError):  # we end, and say it ourselves
                await self._write(verdict)
            raise

    async def run(self, used: Loaded, use: Callable[[Loaded], None]) -> None:
        """Until cancelled."""
        reloader = Reloader(used, use, self._verdicts.put_nowait, self._metrics, self._log)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._say(Verdict.of(used)))
            async with aclosing(self._source.changes()) as changes:
                async for found in changes:
                    await reloader.take(found)

    # --- what became of it

    async def _say(self, verdict: Verdict) -> None:
        """This verdict as a condition only: nothing has changed by it. Then those that come."""
        while True:
            await self._written(verdict)
            verdict = await self._verdicts.get()
            self._event(verdict)

    def _event(self, verdict: Verdict) -> None:
        about = self._source.object or self._us
        if about is not None:
            severity = Severity.WARNING if verdict.refused or verdict.warnings else Severity.NORMAL
            self._tell(about, severity, _reason(verdict), _text(verdict))

    async def _written(self, verdict: Verdict) -> None:
        """The condition, tried until it is there or there is something newer to say."""
        backoff = Backoff(1.0, 60.0)
        while self._verdicts.empty():
            try:
                await self._write(verdict)
                return
            except errors.ApiError as error:
                self._us = None
                self._log(0, "our own pod got no condition", pod=self._pod, why=str(error))
                if isinstance(error, errors.NotFound | errors.Forbidden):
                    return
            await asyncio.sleep(backoff.next())

    async def _write(self, verdict: Verdict) -> None:
        if not self._pod:
            return
        us = self._us or await self._calls.get(Pod, self._pod)
        self._us = await self._calls.pod_condition(self._pod, _condition(us, verdict), uid=us.metadata.uid)


def _reason(verdict: Verdict) -> str:
    return REFUSED if verdict.refused else USED


def _text(verdict: Verdict) -> str:
    if verdict.refused:
        return f"{verdict.refused}\nversion {verdict.used} stays in use"
    return "\n".join((f"version {verdict.used} is used", *verdict.warnings))


def _condition(pod: Pod, verdict: Verdict) -> Condition:
    status = "False" if verdict.refused else "True"
    before = next((one for one in pod.status.conditions if one.type == CONDITION), None)
    now = timestamp(float(int(time.time())))
    since = before.last_transition_time if before is not None and before.status == status else now
    return Condition(
        type=CONDITION, status=status, reason=_reason(verdict), message=_text(verdict), last_transition_time=since
    )
