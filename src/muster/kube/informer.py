"""An informer keeps the objects of one resource up to date and reports changes.

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
from muster.kube.list_watch import PAGE_SIZE, SILENCE_TIMEOUT_S, Report, Selection, Step, list_all, watch
from muster.kube.resources import UNREPORTED, Resource
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import Change, errors

# After a list and watch that lasted this long, the back-off starts again.
BACKOFF_RESET_S = 1.0


class Pace(NamedTuple):
    """The page size and timeouts of an informer."""

    page: int = PAGE_SIZE
    """Objects in a page of a list."""
    silence: float = SILENCE_TIMEOUT_S
    """Seconds of silence after which a watch is considered dead."""
    absent_again: float = 30.0
    """Seconds until a kind that the cluster does not have is looked for again."""


class Delta(Struct, frozen=True, gc=False):
    """One change of one object: its old state (None if it is new) and its new state (None if it was deleted)."""

    change: Change
    kind: str
    key: str
    old: Object | None
    new: Object | None


class InformerState(Enum):
    """The state of an informer: whether it has listed its resource, and whether it can watch it."""

    STARTING = "starting"
    SYNCED = "synced"
    ABSENT = "absent"
    FAILING = "failing"


OnDelta = Callable[[Delta], None]


class Informer:
    """Watches one resource (with the versions it may be served in).

    A kind of several groups has an informer for each, on one `table`; the informer `after` has precedence there.
    """

    def __init__(
        self,
        client: Client,
        versions: tuple[Selection, ...],
        on_delta: OnDelta,
        report: Report,
        *,
        table: dict[str, Object] | None = None,
        after: Informer | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.kind = versions[0].resource.kind
        self.table: dict[str, Object] = {} if table is None else table
        self.synced = asyncio.Event()
        self.state = InformerState.STARTING
        self._fault = ""
        self.resource_version = ""
        self._after = after
        self._client = client
        self._versions = versions
        self._selection = versions[0]
        self._on_delta = on_delta
        self._report = report
        self._pace = pace or Pace()
        self._mine: set[str] = set()  # keys in the table that come from this source
        self._reported: set[str] = set()
        self._latest = 0
        self._watching = False
        self._backoff = Backoff(0.1, 10.0)

    @property
    def unread(self) -> str:
        """Returns the resource with the last error until it was listed once (or found absent); then an empty string."""
        if self.synced.is_set():
            return ""
        return f"{self.resource.name} ({self._fault})" if self._fault else self.resource.name

    @property
    def resource(self) -> Resource:
        """The resource from which the objects are read."""
        return self._selection.resource

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        clock = asyncio.get_running_loop().time
        failed_at = ""
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
                # A failure at the same resourceVersion twice means that this event can never be read.
                if failed_at == self.resource_version:
                    self.resource_version = ""
                failed_at = self.resource_version
                self._failing(error)
            except errors.ApiError as error:
                at_least = error.retry_after
                # A watch is often cut; a watch that cannot be restarted is an error.
                if not (self._watching and isinstance(error, errors.Unreachable)):
                    self._failing(error)
            self._watching = False
            if clock() > began + BACKOFF_RESET_S:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next(at_least))

    def observe(self, obj: Object) -> None:
        """Applies the response of one of our writes at once, unless the watch is already past it."""
        if not self.resource_version or _number(obj) <= _version(self.resource_version):
            return
        known = self.table.get(key_of(obj))
        if known is None or _number(known) < _number(obj):
            self._put(obj)

    def behind(self, version: str) -> bool:
        """Returns whether the watch has not reached this resourceVersion yet."""
        return _version(self.resource_version) < _version(version)

    # --- list and compare

    async def _list(self) -> bool:
        """Lists the resource and reports the differences; False if the cluster has no such kind."""
        for selection in self._versions:
            try:
                objects, version = await list_all(self._client, selection, self._report, size=self._pace.page)
            except errors.NotFound:
                continue
            self._selection = selection
            self._compare(objects, version)
            self._set_state(InformerState.SYNCED)
            return True
        self._compare([], "")
        if self.state is not InformerState.ABSENT and self.kind not in UNREPORTED:
            self._once(f"{self.resource.name} is not known to the cluster; looked for again now and then")
        self._set_state(InformerState.ABSENT)
        return False

    def _compare(self, objects: list[Object], version: str) -> None:
        taken_at = _version(version)
        # A cluster restored from a backup counts from further back again: then the list alone is right.
        restored = taken_at < self._latest
        self._latest = taken_at

        def ours(known: Object) -> bool:
            """Returns whether muster wrote the object after the list: the watch will report it."""
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
                self._set_state(InformerState.SYNCED)
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
        # Older than what we have: our own write came back before the watch event.
        if known is None or known.metadata.uid != step.object.metadata.uid or _number(known) < _number(step.object):
            self._put(step.object)

    # --- the table

    def _put(self, obj: Object) -> None:
        key = key_of(obj)
        old = self.table.get(key)
        if old is not None and key not in self._mine:
            ours, theirs = old.api_version, obj.api_version
            self._once(f"{self.kind.__name__} {key} exists as {ours}, too; that of {theirs} is ignored")
            return
        kind = self.kind.__name__
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and created again while we were not watching: two changes, not one.
            self._drop(key)
            old = None
        self.table[key] = obj
        self._mine.add(key)
        change = Change.ADDED if old is None else Change.MODIFIED
        self._on_delta(Delta(change, kind, key, old, obj))

    def _drop(self, key: str) -> None:
        self._mine.discard(key)
        old = self.table.pop(key)
        self._on_delta(Delta(Change.DELETED, self.kind.__name__, key, old, None))

    # --- its state

    def _set_state(self, state: InformerState) -> None:
        if self.state is InformerState.FAILING and state is InformerState.SYNCED:
            self._report(f"{self.resource.name}: followed again")
        self.state = state
        self.synced.set()

    def _failing(self, error: errors.ApiError) -> None:
        if self.state is not InformerState.FAILING:
            self._report(f"{self.resource.name} cannot be followed, tried again: {error}")
        self.state = InformerState.FAILING
        self._fault = str(error)

    def _once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._report(text)


def _number(obj: Object) -> int:
    return _version(obj.metadata.resource_version)


def _version(text: str) -> int:
    """Returns a resourceVersion as a number; those of one resource are comparable (guaranteed since Kubernetes
    1.35)."""
    return int(text) if text.isdecimal() else 0
