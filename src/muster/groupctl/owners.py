"""From a pod to its application on a live cluster: what is not in the tables yet is asked for.

A pod is often seen before the ReplicaSet it belongs to, and to take it for a pod by itself would be a guess.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from muster.groups.applications import Application, Lookup, application_of
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.kinds import KINDS
from muster.model.meta import Object, controller
from muster.store import NotFound

ObjectTables = Mapping[str, Mapping[str, Object]]
GetObject = Callable[[type[Object], str], Awaitable[Object]]
FetchOwner = Callable[[str, str, str], Object | None]
"""Kind, key and uid of an owner that is not in the tables → the object as it is in the cluster; None: it is not."""
CustomKinds = Callable[[], tuple[type[CustomApplication], ...]]
"""The configured kinds, as they are now."""

ABSENT_OWNER_TTL_S = 5.0  # seconds: an owner that was not there is not asked for again so soon


def owner_lookup(pod: Pod, tables: ObjectTables, ask: FetchOwner) -> Lookup:
    """The owners of the pod, one above the other: from the tables, or asked for where these have none, or another one
    that has only the same name."""
    wanted = controller(pod.metadata)

    def lookup(kind: str, key: str) -> Object | None:
        nonlocal wanted
        uid = "" if wanted is None else wanted.uid
        found = tables.get(kind, {}).get(key)
        if found is None or not _is(found, key, uid):
            found = ask(kind, key, uid)
        wanted = None if found is None else controller(found.metadata)
        return found

    return lookup


class OwnerResolver:
    """Applications from tables (kind → key → object), and from `get` where an owner is missing there."""

    def __init__(
        self,
        tables: ObjectTables,
        get: GetObject,
        custom: CustomKinds = tuple,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._get = get
        self._custom = custom
        self._now = now
        self._absent: dict[tuple[str, str, str], float] = {}

    def custom(self) -> frozenset[str]:
        """The names of the configured kinds."""
        return frozenset(kind.__name__ for kind in self._custom())

    async def application_of(self, pod: Pod) -> Application:
        """The pod's application. OwnerLoop, or an ApiError if the API server does not answer."""
        fetched: dict[tuple[str, str, str], Object | None] = {}
        while True:
            missing: list[tuple[str, str, str]] = []

            def known(kind: str, key: str, uid: str, missing: list[tuple[str, str, str]] = missing) -> Object | None:
                if (kind, key, uid) not in fetched:
                    missing.append((kind, key, uid))
                return fetched.get((kind, key, uid))

            application = application_of(pod, owner_lookup(pod, self._tables, known), self.custom())
            if not missing:
                return application
            for one in missing:
                fetched[one] = await self.fetch(*one)

    async def fetch(self, kind: str, key: str, uid: str) -> Object | None:
        """The owner as it is in the cluster; None if it is not there."""
        at, now = (kind, key, uid), self._now()
        if self._absent.get(at, now) > now:
            return None
        type_ = KINDS.get(kind) or next((one for one in self._custom() if one.__name__ == kind), None)
        if type_ is None:
            return None
        try:
            found = await self._get(type_, key)
        except NotFound:
            found = None
        if found is None or not _is(found, key, uid):
            if len(self._absent) > 10_000:
                self._absent.clear()
            self._absent[at] = now + ABSENT_OWNER_TTL_S
            return None
        return found


def _is(found: Object, key: str, uid: str) -> bool:
    """One that was deleted and made again is another one; one that was written without a uid has its name there."""
    return not uid or found.metadata.uid in ("", key, uid)
