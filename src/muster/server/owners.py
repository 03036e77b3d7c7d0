"""From a pod to its application on a live cluster: what is not in the tables yet is asked for.

A pod is often seen before the ReplicaSet it belongs to, and to take it for a pod by itself would be a guess.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from muster.groups.applications import Application, application_of
from muster.model.core import Pod
from muster.model.kinds import KINDS
from muster.model.meta import Object, controller
from muster.store import NotFound

Tables = Mapping[str, Mapping[str, Object]]
Get = Callable[[type[Object], str], Awaitable[Object]]

FORGET_ABSENT = 5.0  # seconds: an owner that was not there is not asked for again so soon


class Owners:
    """Applications from tables (kind → key → object), and from `get` where an owner is missing there."""

    def __init__(self, tables: Tables, get: Get, now: Callable[[], float] = time.monotonic) -> None:
        self._tables = tables
        self._get = get
        self._now = now
        self._absent: dict[tuple[str, str, str], float] = {}

    async def application_of(self, pod: Pod) -> Application:
        """The pod's application. OwnerLoop, or an ApiError if the API server does not answer."""
        named = controller(pod.metadata)
        uid = named.uid if named is not None else ""
        fetched: dict[tuple[str, str], Object | None] = {}
        while True:
            missing: list[tuple[str, str]] = []

            def lookup(kind: str, key: str, missing: list[tuple[str, str]] = missing) -> Object | None:
                if (kind, key) in fetched:
                    return fetched[kind, key]
                found = self._tables.get(kind, {}).get(key)
                # An owner that was deleted and made again is another one, though it has the same name.
                direct = named is not None and (named.kind, named.name) == (kind, key.rpartition("/")[2])
                if found is None or (direct and uid and found.metadata.uid not in ("", key, uid)):
                    missing.append((kind, key))
                return found

            application = application_of(pod, lookup)
            if not missing:
                return application
            for kind, key in missing:
                fetched[kind, key] = await self._ask(kind, key, uid)

    async def _ask(self, kind: str, key: str, uid: str) -> Object | None:
        at = (kind, key, uid)
        now = self._now()
        if self._absent.get(at, now) > now:
            return None
        try:
            return await self._get(KINDS[kind], key)
        except NotFound:
            if len(self._absent) > 10_000:
                self._absent.clear()
            self._absent[at] = now + FORGET_ABSENT
            return None
