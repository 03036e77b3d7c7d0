"""Evictions for a claim. They are tried with dryRun first; if one is refused, none is carried out. A single one is its
own trial.

A victim's annotations name the rule and, if it lives in the same namespace, the pod that gets the capacity. One event
says it for all victims of a PodGroup, and one for all claimers of a PodGroup; a pod without a PodGroup has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from muster.cycle import telling
from muster.engine.core.plan import Eviction
from muster.model.core import Pod
from muster.model.meta import Object, key
from muster.model.pod_states import eviction_annotations
from muster.model.scheduling import PodGroup
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.commits import EvictionCommit
from muster.scheduler.inbox import CallResult, EvictionRefused, Message
from muster.scheduler.metrics import Metrics
from muster.store import Severity, errors

EVICTING, REFUSED = "Evicting", "EvictionRefused"
NAMED = 5  # pods that an event names


class Evictor:
    def __init__(
        self, calls: SchedulerApi, put: Callable[[Message], None], tell: RecordEvent, metrics: Metrics
    ) -> None:
        self._calls = calls
        self._put = put
        self._tell = tell
        self._metrics = metrics

    async def remove(self, removal: EvictionCommit) -> None:
        tried = removal.victims if removal.tried else ()
        refused = await asyncio.gather(*(self._try(eviction, pod) for eviction, pod in tried))
        whys = {eviction.pod: why for (eviction, _), why in zip(tried, refused, strict=True) if why}
        if whys:
            for eviction, pod in removal.victims:
                self._put(CallResult(eviction.pod, pod.metadata.uid, "", False))
            self._refuse(removal, whys)
            return
        refused = await asyncio.gather(*(self._evict(eviction, pod) for eviction, pod in removal.victims))
        whys = {eviction.pod: why for (eviction, _), why in zip(removal.victims, refused, strict=True) if why}
        if whys:
            self._refuse(removal, whys)
        done = [(eviction, pod) for eviction, pod in removal.victims if eviction.pod not in whys]
        self._report_victims(removal, done)
        self._report_claimers(removal, [eviction for eviction, _ in done])

    async def _try(self, eviction: Eviction, pod: Pod) -> str:
        """Why the eviction would be refused, or nothing."""
        try:
            await self._calls.evict(eviction.pod, uid=pod.metadata.uid, dry_run=True)
        except errors.NotFound:
            return ""  # it has gone by itself: all the better
        except errors.ApiError as error:
            return _why(eviction, error)
        return ""

    async def _evict(self, eviction: Eviction, pod: Pod) -> str:
        """Why the eviction was refused, or nothing."""
        name, uid = eviction.pod, pod.metadata.uid
        notes = eviction_annotations(telling.claimer_shown(eviction), eviction.rule)
        with suppress(errors.ApiError):  # a note that cannot be written does not keep the pod
            # Through the status subresource, which we may write to; Kubernetes takes annotations there, too.
            await self._calls.patch(Pod, name, {"metadata": {"uid": uid, "annotations": notes}}, sub="status")
        try:
            await self._calls.evict(name, uid=uid)
        except errors.NotFound:
            pass
        except errors.ApiError as error:
            if not error.maybe_done:
                with suppress(errors.ApiError):
                    taken_back = {"metadata": {"uid": uid, "annotations": dict.fromkeys(notes)}}
                    await self._calls.patch(Pod, name, taken_back, sub="status")
                self._put(CallResult(name, uid, "", False))
                self._tell(pod, Severity.WARNING, REFUSED, f"eviction by {eviction.rule}: {error.message}")
                return _why(eviction, error)
        self._put(CallResult(name, uid, "", True))
        self._metrics.evictions.inc()
        return ""

    def _refuse(self, removal: EvictionCommit, whys: dict[str, str]) -> None:
        uids = {eviction.pod: pod.metadata.uid for eviction, pod in removal.victims if eviction.pod in whys}
        first = min(whys)
        self._put(EvictionRefused(removal.claimer, uids, f"an eviction was refused: {whys[first]}"))
        self._metrics.evictions_refused.inc(len(whys))
        for about, _ in _of_claimers(removal):
            self._tell(about, Severity.WARNING, REFUSED, f"no capacity is released: {whys[first]}")

    def _report_victims(self, removal: EvictionCommit, done: list[tuple[Eviction, Pod]]) -> None:
        of_groups: dict[tuple[str, str], tuple[PodGroup, list[str]]] = {}
        for eviction, pod in done:
            group, text = removal.group_of.get(eviction.pod), telling.eviction_text(eviction)
            if group is None:
                self._tell(pod, Severity.WARNING, telling.EVICTED, text)
            else:
                of_groups.setdefault((group.metadata.uid, text), (group, []))[1].append(eviction.pod)
        for (_, text), (group, pods) in of_groups.items():
            self._tell(group, Severity.WARNING, telling.EVICTED, f"{_count(len(pods))} {text}: {_listed(sorted(pods))}")

    def _report_claimers(self, removal: EvictionCommit, done: list[Eviction]) -> None:
        for about, pods in _of_claimers(removal):
            names = {key(pod) for pod in pods}
            mine = [e for e in done if e.by in names]
            if mine:
                near = sorted(e.pod for e in mine if telling.may_be_named(e))
                named = f": {_listed(near)}" if near else ""
                self._tell(about, Severity.NORMAL, EVICTING, f"{mine[0].rule} evicts {_count(len(mine))}{named}")


def _of_claimers(removal: EvictionCommit) -> list[tuple[Object, list[Pod]]]:
    """The objects that get the events of the claimers: their PodGroup, or the pod itself."""
    found: dict[str, tuple[Object, list[Pod]]] = {}
    for pod in removal.by:
        about: Object = removal.group_of.get(key(pod), pod)
        found.setdefault(about.metadata.uid, (about, []))[1].append(pod)
    return list(found.values())


def _why(eviction: Eviction, error: errors.ApiError) -> str:
    if telling.may_be_named(eviction):
        return error.message
    # The API server's message names the pod, and perhaps its budget.
    if isinstance(error, errors.Forbidden) and error.permission is not None:
        return f"muster lacks the permission to {error.permission}"
    who = "a budget" if isinstance(error, errors.BudgetRefused) else f"the API server ({error.code})"
    return f"{who} keeps a pod of another namespace"


def _count(number: int) -> str:
    return f"{number} pod{'s'[: number != 1]}"


def _listed(pods: list[str]) -> str:
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return f"{', '.join(pods[:NAMED])}{more}"
