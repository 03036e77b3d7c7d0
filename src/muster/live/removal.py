"""Evictions: all of a job's claim are first tried with dryRun, and if one is refused none is carried out.

On the victim stand the rule and, if it lives in the same namespace, for whom it had to go; on the one that gets the
room, how many went, and which of them are of its own namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from muster.cycle import telling
from muster.engine.plan import Eviction
from muster.kube import errors
from muster.live.calls import Calls, Tell
from muster.live.messages import Message, Refusal, Settled
from muster.live.metrics import Metrics
from muster.live.orders import Removal
from muster.model.core import Pod
from muster.store import Severity

MADE_ROOM, REFUSED = "Evicting", "EvictionRefused"


class Remover:
    def __init__(self, calls: Calls, put: Callable[[Message], None], tell: Tell, metrics: Metrics) -> None:
        self._calls = calls
        self._put = put
        self._tell = tell
        self._metrics = metrics

    async def remove(self, removal: Removal) -> None:
        refused = await asyncio.gather(*(self._try(eviction, pod) for eviction, pod in removal.victims))
        whys = {pod: why for (eviction, _), why in zip(removal.victims, refused, strict=True)
                if why and (pod := eviction.pod)}  # fmt: skip
        if whys:
            self._give_up(removal, whys)
            return
        done = await asyncio.gather(*(self._evict(removal, eviction, pod) for eviction, pod in removal.victims))
        self._tell_claimers(removal, [e for (e, _), yes in zip(removal.victims, done, strict=True) if yes])

    async def _try(self, eviction: Eviction, pod: Pod) -> str:
        """Why the eviction would be refused, or nothing."""
        try:
            await self._calls.evict(eviction.pod, uid=pod.metadata.uid, dry_run=True)
        except errors.NotFound:
            return ""  # it has gone by itself: all the better
        except errors.ApiError as error:
            if telling.may_be_named(eviction):
                return error.message
            # The API server's words name the pod, and perhaps its budget.
            if isinstance(error, errors.Forbidden) and error.permission is not None:
                return f"muster lacks the permission to {error.permission}"
            who = "a budget" if isinstance(error, errors.BudgetRefused) else f"the API server ({error.code})"
            return f"{who} keeps a pod of another namespace"
        return ""

    async def _evict(self, removal: Removal, eviction: Eviction, pod: Pod) -> bool:
        key, uid = eviction.pod, pod.metadata.uid
        notes = {
            telling.EVICTED_BY: telling.claimer_shown(eviction),
            telling.EVICTED_RULE: eviction.rule,
        }
        with suppress(errors.ApiError):  # a note that cannot be written does not keep the pod
            # Through the status subresource, which we may write to; Kubernetes takes annotations there, too.
            await self._calls.patch(Pod, key, {"metadata": {"uid": uid, "annotations": notes}}, sub="status")
        try:
            await self._calls.evict(key, uid=uid)
        except errors.NotFound:
            pass
        except errors.ApiError as error:
            if not error.maybe_done:
                self._put(Settled(key, uid, "", False))
                self._tell(pod, Severity.WARNING, REFUSED, f"eviction by {eviction.rule}: {error.message}")
                self._metrics.evictions_refused.inc()
                return False
        self._put(Settled(key, uid, "", True))
        self._metrics.evictions.inc()
        message = telling.eviction_text(eviction)
        self._tell(pod, Severity.WARNING, telling.EVICTED, message)
        group = removal.group_of.get(key)
        if group is not None:
            self._tell(group, Severity.NORMAL, telling.EVICTED, f"pod {key} {message}")
        return True

    def _give_up(self, removal: Removal, whys: dict[str, str]) -> None:
        for eviction, pod in removal.victims:
            self._put(Settled(eviction.pod, pod.metadata.uid, "", False))
        uids = {eviction.pod: pod.metadata.uid for eviction, pod in removal.victims if eviction.pod in whys}
        first = min(whys)
        self._put(Refusal(removal.claimer, uids, f"an eviction was refused: {whys[first]}"))
        self._metrics.evictions_refused.inc(len(whys))
        for pod in removal.by:
            self._tell(pod, Severity.WARNING, REFUSED, f"no room is made: an eviction was refused: {whys[first]}")

    def _tell_claimers(self, removal: Removal, done: list[Eviction]) -> None:
        for pod in removal.by:
            mine = [e for e in done if e.by.partition("/")[2] == pod.metadata.name]
            if not mine:
                continue
            near = sorted(e.pod for e in mine if e.pod.partition("/")[0] == pod.metadata.namespace)
            names = f": {', '.join(near[:5])}" if near else ""
            text = f"{mine[0].rule} makes room by evicting {len(mine)} pod{'s'[: len(mine) != 1]}{names}"
            self._tell(pod, Severity.NORMAL, MADE_ROOM, text)
