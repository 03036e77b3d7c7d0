"""An informer keeps the objects of one resource as the cluster has them, and says what changed.

List, then watch from there; a watch that ends is taken up where it ended; one that is too old is listed again and
compared with what we have, so that no deletion is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.lists import PAGE, Report, Selection, list_all
from muster.kube.resources import Resource
from muster.kube.watch import SILENCE, Step, watch
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import Change, errors

# A list and watch that held for so many seconds is no storm, however it ended.
LIVED = 1.0


class Pace(NamedTuple):
    """How an informer reads."""

    page: int = PAGE
    """Objects in a page of a list."""
    silence: float = SILENCE
    """Seconds without a word after which a watch is taken for dead."""
    absent_again: float = 30.0
    """Seconds until a kind that the cluster does not have is looked for again."""


class Delta(Struct, frozen=True, gc=False):
    """One change of one object: as it was (None: it is new) and as it is (None: it is gone)."""

    change: Change
    kind: str
    key: str
    old: Object | None
    new: Object | None


class Standing(Enum):
    """How an informer stands with the API server."""

    STARTING = "starting"
    SYNCED = "synced"
    ABSENT = "absent"
    FAILING = "failing"


Tell = Callable[[Delta], None]


class Informer:
    """One resource (with the versions it may be served in).

    A kind of several groups has an informer for each, on one `table`; those before (`after`) have the first say there.
    """

    def __init__(
        self,
        client: Client,
        versions: tuple[Selection, ...],
        tell: Tell,
        report: Report,
        *,
        table: dict[str, Object] | None = None,
        after: Informer | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.kind = versions[0].resource.kind
        self.table: dict[str, Object] = {} if table is None else table
        self.synced = asyncio.Event()
        self.standing = Standing.STARTING
        self._fault = ""
        self.resource_version = ""
        self._after = after
        self._client = client
        self._versions = versions
        self._selection = versions[0]
        self._tell = tell
        self._report = report
        self._pace = pace or Pace()
        self._mine: set[str] = set()  # keys in the table that come from this source
        self._said: set[str] = set()
        self._latest = 0
        self._watching = False
        self._backoff = Backoff(0.1, 10.0)

    @property
    def unread(self) -> str:
        """The resource until it was listed once (or found absent), with what the API server said last; then nothing."""
        if self.synced.is_set():
            return ""
        return f"{self.resource.name} ({self._fault})" if self._fault else self.resource.name

    @property
    def resource(self) -> Resource:
        """Where the objects are read from."""
        return self._selection.resource

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        clock = asyncio.get_running_loop().time
        stumbled_at = ""
        if self._after is not None:
            await self._after.synced.wait()
        while True:
            began = clock()
            at_least: float | None = None
            try:
                if not self.resource_version and not await self._list():
                    await asyncio.sleep(self._pace.absent_again)
                    continue
                await self._follow()
            except (errors.Gone, errors.NotFound):
                # Too long ago, or its definition was taken away while we watched.
                self.resource_version = ""
            except (errors.BadAnswer, errors.TooLarge) as error:
                # Once may be an accident on the wire; the same place again is a line that will never be readable.
                if stumbled_at == self.resource_version:
                    self.resource_version = ""
                stumbled_at = self.resource_version
                self._failing(error)
            except errors.ApiError as error:
                at_least = error.retry_after
                # A watch that was cut is an everyday thing; one that cannot be had again is not.
                if not (self._watching and isinstance(error, errors.Unreachable)):
                    self._failing(error)
            self._watching = False
            if clock() > began + LIVED:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next(at_least))

    def observe(self, obj: Object) -> None:
        """An object as a write of ours got it back: taken at once, unless the watch is past it already."""
        if not self.resource_version or _number(obj) <= _version(self.resource_version):
            return
        known = self.table.get(key_of(obj))
        if known is None or _number(known) < _number(obj):
            self._put(obj)

    def behind(self, version: str) -> bool:
        """Has the watch not told everything up to this resourceVersion yet?"""
        return _version(self.resource_version) < _version(version)

    # --- list and compare

    async def _list(self) -> bool:
        """Take a list and tell what is different from what we have; False if the cluster has no such kind."""
        for selection in self._versions:
            try:
                objects, version = await list_all(self._client, selection, self._report, size=self._pace.page)
            except errors.NotFound:
                continue
            self._selection = selection
            self._compare(objects, version)
            self._stand(Standing.SYNCED)
            return True
        self._compare([], "")
        if self.standing is not Standing.ABSENT:
            self._once(f"{self.resource.name} is not known to the cluster; looked for again now and then")
        self._stand(Standing.ABSENT)
        return False

    def _compare(self, objects: list[Object], version: str) -> None:
        taken_at = _version(version)
        # A cluster restored from a backup counts from further back again: then the list alone is right.
        restored = taken_at < self._latest
        self._latest = taken_at

        def ours(known: Object) -> bool:
            """Written by ourselves after the list was taken: the watch will speak of it."""
            return not restored and _number(known) > taken_at

        listed = {key_of(obj) for obj in objects}
        for key in sorted(self._mine - listed):
            if not version or not ours(self.table[key]):
                self._drop(key)
        for obj in objects:
            known = self.table.get(key_of(obj))
            same = known is not None and known.metadata.uid == obj.metadata.uid
            if known is None or not same or (_number(known) != _number(obj) and not ours(known)):
                self._put(obj)
        self.resource_version = version

    # --- watch

    async def _follow(self) -> None:
        since, silence = self.resource_version, self._pace.silence
        async with aclosing(watch(self._client, self._selection, since, self._report, silence=silence)) as batches:
            async for steps in batches:
                self._stand(Standing.SYNCED)
                self._watching = True
                if steps:
                    self._backoff.reset()
                for step in steps:
                    self._apply(step)
                    if step.resource_version:
                        self.resource_version = step.resource_version
                        self._latest = _version(step.resource_version)
                await asyncio.sleep(0)

    def _apply(self, step: Step) -> None:
        if step.change is None:
            return
        if step.object is None or step.change is Change.DELETED:
            key = f"{step.namespace}/{step.name}" if self.kind.namespaced else step.name
            if key in self._mine:
                self._drop(key)
            return
        known = self.table.get(key_of(step.object))
        # Older than what we have: our own write came back before the watch told of it.
        if known is None or known.metadata.uid != step.object.metadata.uid or _number(known) < _number(step.object):
            self._put(step.object)

    # --- the table

    def _put(self, obj: Object) -> None:
        key = key_of(obj)
        old = self.table.get(key)
        if old is not None and key not in self._mine:
            ours, theirs = old.api_version, obj.api_version
            self._once(f"{self.kind.__name__} {key} is there as {ours} too; the one of {theirs} is passed over")
            return
        kind = self.kind.__name__
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and made again while we were not looking: two lives, not one change.
            self._drop(key)
            old = None
        self.table[key] = obj
        self._mine.add(key)
        change = Change.ADDED if old is None else Change.MODIFIED
        self._tell(Delta(change, kind, key, old, obj))

    def _drop(self, key: str) -> None:
        self._mine.discard(key)
        old = self.table.pop(key)
        self._tell(Delta(Change.DELETED, self.kind.__name__, key, old, None))

    # --- how it stands

    def _stand(self, standing: Standing) -> None:
        if self.standing is Standing.FAILING and standing is Standing.SYNCED:
            self._report(f"{self.resource.name}: followed again")
        self.standing = standing
        self.synced.set()

    def _failing(self, error: errors.ApiError) -> None:
        if self.standing is not Standing.FAILING:
            self._report(f"{self.resource.name} cannot be followed, tried again: {error}")
        self.standing = Standing.FAILING
        self._fault = str(error)

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._report(text)


def _number(obj: Object) -> int:
    return _version(obj.metadata.resource_version)


def _version(text: str) -> int:
    """resourceVersions of one resource are comparable numbers (Kubernetes 1.35 made that a promise)."""
    return int(text) if text.isdecimal() else 0
