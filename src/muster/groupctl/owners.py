"""Finds the application of a pod on a live cluster. Owners that the informers have not seen yet are fetched.

A pod is often seen before its ReplicaSet, and to treat it as a pod without an owner would be a guess.
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
"""Kind, key and uid of an owner that is not in the tables → the object in the cluster; None: it does not exist."""
CustomKinds = Callable[[], tuple[type[CustomApplication], ...]]
"""Returns the custom kinds that are configured now."""

ABSENT_OWNER_TTL_S = 5.0  # the time for which a missing owner is not fetched again


def owner_lookup(pod: Pod, tables: ObjectTables, ask: FetchOwner) -> Lookup:
    """Looks up the pod's owners, one above the other: in the tables, or by `ask` where the tables have no such object
    or an object of the same name with another uid."""
    wanted = controller(pod.metadata)

    def lookup(kind: str, key: str) -> Object | None:
        nonlocal wanted
        uid = "" if wanted is None else wanted.uid
        found = tables.get(kind, {}).get(key)
        if found is None or not _has_uid(found, key, uid):
            found = ask(kind, key, uid)
        wanted = None if found is None else controller(found.metadata)
        return found

    return lookup


class OwnerResolver:
    """Finds applications in object tables (kind → key → object), and by `get` where an owner is missing there."""

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
        """The names of the configured custom kinds."""
        return frozenset(kind.__name__ for kind in self._custom())

    async def application_of(self, pod: Pod) -> Application:
        """Returns the pod's application. Raises OwnerLoop, or an error of the API server."""
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
            for reference in missing:
                fetched[reference] = await self.fetch(*reference)

    async def fetch(self, kind: str, key: str, uid: str) -> Object | None:
        """Fetches the owner from the cluster; None if it does not exist."""
        at, now = (kind, key, uid), self._now()
        if self._absent.get(at, now) > now:
            return None
        type_ = next((custom for custom in self._custom() if custom.__name__ == kind), None) or KINDS.get(kind)
        if type_ is None:
            return None
        try:
            found = await self._get(type_, key)
        except NotFound:
            found = None
        if found is None or not _has_uid(found, key, uid):
            if len(self._absent) > 10_000:
                self._absent.clear()
            self._absent[at] = now + ABSENT_OWNER_TTL_S
            return None
        return found


def _has_uid(found: Object, key: str, uid: str) -> bool:
    """Whether the object has that uid: a recreated object has another one, an object without a uid its key."""
    return not uid or found.metadata.uid in ("", key, uid)
