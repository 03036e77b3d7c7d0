"""Sends the evictions for one job. Some are tried with dryRun first; if one is refused, none is carried out.

A victim's annotations name the rule and, if it lives in the same namespace, the pod that gets the capacity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from muster.cycle import plan_effects
from muster.engine.core.plan import Eviction
from muster.model.core import Pod
from muster.model.pod_states import eviction_annotations
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.commits import EvictionCommit
from muster.scheduler.inbox import CallResult, EvictionRefused, Message
from muster.scheduler.metrics import Metrics
from muster.store import Severity, errors
from muster.store.event_reasons import EventReason


class Evictor:
    """Sends eviction commits, and reports them to the cache and in events."""

    def __init__(
        self, api: SchedulerApi, put: Callable[[Message], None], record: RecordEvent, metrics: Metrics
    ) -> None:
        self._api = api
        self._put = put
        self._record = record
        self._metrics = metrics

    async def evict(self, commit: EvictionCommit) -> None:
        tried = [(eviction, pod) for eviction, pod in commit.victims if eviction.pod in commit.tried]
        refused = await asyncio.gather(*(self._try(eviction, pod) for eviction, pod in tried))
        reasons = {eviction.pod: why for (eviction, _), why in zip(tried, refused, strict=True) if why}
        if reasons:
            for eviction, pod in commit.victims:
                self._put(CallResult(eviction.pod, pod.metadata.uid, "", False))
            self._refuse(commit, reasons)
            return
        refused = await asyncio.gather(*(self._evict(eviction, pod) for eviction, pod in commit.victims))
        reasons = {eviction.pod: why for (eviction, _), why in zip(commit.victims, refused, strict=True) if why}
        if reasons:
            self._refuse(commit, reasons)
        done = [(eviction, pod) for eviction, pod in commit.victims if eviction.pod not in reasons]
        for event in plan_effects.victim_events(done, commit.group_of):
            self._record(*event)
        evictions = [eviction for eviction, _ in done]
        for event in plan_effects.claimer_events(evictions, commit.claimer_pods, commit.group_of):
            self._record(*event)

    async def _try(self, eviction: Eviction, pod: Pod) -> str:
        """Returns why the eviction would be refused, or an empty text."""
        try:
            await self._api.evict(eviction.pod, uid=pod.metadata.uid, dry_run=True)
        except errors.NotFound:
            return ""  # the pod is gone already
        except errors.ApiError as error:
            return _why(eviction, error)
        return ""

    async def _evict(self, eviction: Eviction, pod: Pod) -> str:
        """Returns why the eviction was refused, or an empty text."""
        name, uid = eviction.pod, pod.metadata.uid
        annotations = eviction_annotations(plan_effects.claimer_shown(eviction), eviction.rule)
        with suppress(errors.ApiError):  # the pod is evicted even if its annotations cannot be written
            # Through the status subresource, which the scheduler may write; Kubernetes accepts annotations there, too.
            await self._api.patch(Pod, name, {"metadata": {"uid": uid, "annotations": annotations}}, sub="status")
        try:
            await self._api.evict(name, uid=uid)
        except errors.NotFound:
            pass
        except errors.ApiError as error:
            if not error.maybe_done:
                with suppress(errors.ApiError):
                    removed = {"metadata": {"uid": uid, "annotations": dict.fromkeys(annotations)}}
                    await self._api.patch(Pod, name, removed, sub="status")
                self._put(CallResult(name, uid, "", False))
                text = f"eviction by {eviction.rule}: {error.message}"
                self._record(pod, Severity.WARNING, EventReason.EVICTION_REFUSED, text)
                return _why(eviction, error)
        self._put(CallResult(name, uid, "", True))
        self._metrics.evictions.inc()
        return ""

    def _refuse(self, commit: EvictionCommit, reasons: dict[str, str]) -> None:
        uids = {eviction.pod: pod.metadata.uid for eviction, pod in commit.victims if eviction.pod in reasons}
        why = reasons[min(reasons)]
        self._put(EvictionRefused(commit.claimer, uids, f"an eviction was refused: {why}"))
        self._metrics.evictions_refused.inc(len(reasons))
        for obj, _ in plan_effects.claimer_objects(commit.claimer_pods, commit.group_of):
            self._record(obj, Severity.WARNING, EventReason.EVICTION_REFUSED, f"no capacity is released: {why}")


def _why(eviction: Eviction, error: errors.ApiError) -> str:
    if plan_effects.same_namespace(eviction):
        return error.message
    # The API server's message names the pod, and perhaps its budget.
    if isinstance(error, errors.Forbidden) and error.permission is not None:
        return f"muster lacks the permission to {error.permission}"
    who = "a budget" if isinstance(error, errors.BudgetRefused) else f"the API server ({error.code})"
    return f"{who} keeps a pod of another namespace"
