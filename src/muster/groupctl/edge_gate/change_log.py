"""The log of pods that a change of their application showed or hid, with the resourceVersion of the change.

The API server sends no event for such a pod, because only its application changed. The version of an entry is at least
that of every response that was given before the change, so a client that watches from an older or equal version gets
the entry. The pods are listed after the change is known: a client that saw a pod before the change saw it before the
list, so none is missed, however far its watch is ahead of ours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groups.applications import OwnerLoop, owner_ref
from muster.groups.binding import DOMAIN, PolicyLabels, hold_reason
from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.informer import Delta
from muster.kube.list_watch import Selection, pages
from muster.kube.resources import resource_of
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Pod
from muster.model.meta import Object, spec_of
from muster.model.meta import key as key_of
from muster.store import errors

MAX_LOG_ENTRIES = 20_000


class Change(NamedTuple):
    """A pod (`ns/name`) to look at again, the node it had, and the number of the turn that it is because of."""

    key: str
    node: str = ""
    turn: int = 0


class ChangeLog:
    def __init__(self, kept: int = MAX_LOG_ENTRIES) -> None:
        self.floor = 0
        """Watches from before this version cannot be told what they missed."""
        self.handed = 0
        """The latest version that any answer was of."""
        self.turn = 0
        """Grows when an application changes, which is a moment before its pods are in the log."""
        self.open: set[int] = set()
        """Turns whose pods are not in the log yet."""
        self._log: deque[tuple[int, Change]] = deque()
        self._kept = kept
        self._readers: dict[asyncio.Queue[Change], None] = {}

    def __len__(self) -> int:
        return len(self._log)

    def begin(self, version: int) -> None:
        """The gate knows what happened from here on."""
        self.floor = version

    def hand(self, version: str) -> None:
        """An answer of that version is about to be given."""
        if version.isdecimal() and int(version) > self.handed:
            self.handed = int(version)

    def turned(self) -> int:
        """An application changed; the number of that turn."""
        self.turn += 1
        self.open.add(self.turn)
        return self.turn

    def add(self, changes: Iterable[Change], version: str, turns: Iterable[int] = ()) -> None:
        """Applications changed at `version` (in these turns), and with them the verdict on these pods."""
        self.open.difference_update(turns)
        at = max(self.handed, int(version) if version.isdecimal() else 0)
        for change in changes:
            self._log.append((at, change))
            for reader in self._readers:
                reader.put_nowait(change)
        while len(self._log) > self._kept:
            self.floor = self._log.popleft()[0] + 1

    def since(self, version: str) -> list[Change] | None:
        """The pods to look at for one who saw everything up to `version`; None: the log does not reach back."""
        if not version.isdecimal():
            return []  # the API server will say what is wrong with it
        if int(version) < self.floor:
            return None
        return list(dict.fromkeys(change for at, change in self._log if at >= int(version)))

    def subscribe(self) -> asyncio.Queue[Change]:
        reader: asyncio.Queue[Change] = asyncio.Queue()
        self._readers[reader] = None
        return reader

    def unsubscribe(self, reader: asyncio.Queue[Change]) -> None:
        self._readers.pop(reader, None)


Ref = tuple[str, str]  # kind, ns/name
_OWN = frozenset(kind.__name__ for kind in APPLICATION_KINDS)
_PAGE = 500


class ChangeRecorder:
    """Tell it of every change; `run` writes the log."""

    def __init__(
        self,
        client: Client,
        owners: OwnerResolver,
        changes: ChangeLog,
        report: Callable[[str], None],
        *,
        grouped: GroupingCache | None = None,
    ) -> None:
        """`grouped`: changes of policies and groups matter, too, since pods are held by their edition."""
        self._client = client
        self._owners = owners
        self._changes = changes
        self._report = report
        self._grouping_cache = grouped
        # Namespace ("": all) → applications (None: all), version, turns.
        self._due: dict[str, tuple[set[Ref] | None, str, set[int]]] = {}
        self._news = asyncio.Event()

    def notice(self, delta: Delta) -> None:
        namespace = delta.key.partition("/")[0]
        if delta.kind in _OWN or delta.kind in self._owners.custom():
            if _differs(delta.old, delta.new, editions=self._grouping_cache is not None):
                self._turn(namespace, {(delta.kind, delta.key)}, delta)
        elif self._grouping_cache is not None:
            if self._grouping_cache.observe(delta.kind, delta.old, delta.new):
                self._turn("", None, delta)
            elif delta.kind == "OverridePolicy" and spec_of(delta.old) != spec_of(delta.new):
                self._turn(namespace, None, delta)

    def reconfigured(self) -> None:
        """Other kinds are applications now: any pod may have another one than before."""
        self._put("", None, "", {self._changes.turned()})

    async def run(self) -> None:
        """Until cancelled."""
        backoff = Backoff(0.1, 10.0)
        while True:
            await self._news.wait()
            self._news.clear()
            due, self._due = self._due, {}
            for namespace, (apps, version, turns) in due.items():
                try:
                    found = await self._concerned(namespace, apps, max(turns))
                except errors.ApiError as fault:
                    where = namespace or "all namespaces"
                    self._report(f"pods of {where} could not be looked at, tried again: {fault}")
                    self._put(namespace, apps, version, turns)
                    await asyncio.sleep(backoff.next())
                    continue
                backoff.reset()
                self._changes.add(found, version, turns)

    async def _concerned(self, namespace: str, apps: set[Ref] | None, turn: int) -> list[Change]:
        found = []
        selection = Selection(resource_of(Pod), namespace)
        async for page in pages(self._client, selection, self._report, size=_PAGE):
            for pod in page.objects:
                assert isinstance(pod, Pod)
                if await self._is_of(pod, apps):
                    found.append(Change(key_of(pod), pod.spec.node_name, turn))
        return found

    async def _is_of(self, pod: Pod, apps: set[Ref] | None) -> bool:
        if apps is None:
            return True
        if not pod.metadata.owner_references:
            return False
        try:
            application = await self._owners.application_of(pod)
        except OwnerLoop:
            return False
        if (application.kind, application.key) in apps:
            return True
        # An application that is gone: its pods now belong to what was below it.
        return owner_ref(application.object) in apps

    def _turn(self, namespace: str, apps: set[Ref] | None, delta: Delta) -> None:
        self._put(namespace, apps, _version(delta), {self._changes.turned()})

    def _put(self, namespace: str, apps: set[Ref] | None, version: str, turns: set[int]) -> None:
        known, latest, before = self._due.get(namespace, (set(), "", set()))
        together = None if apps is None or known is None else known | apps
        self._due[namespace] = together, max(latest, version, key=lambda text: (len(text), text)), before | turns
        self._news.set()


def _differs(old: Object | None, new: Object | None, *, editions: bool) -> bool:
    """Does the change of an application change the verdict on its pods?"""
    before, after = (None if obj is None else hold_reason(obj.metadata.labels) for obj in (old, new))
    if (before is None) != (after is None):
        return True
    if old is None and new is not None and any(pair.required in new.metadata.labels for pair in PolicyLabels):
        return True  # it may have been held when its pods were first judged
    if not editions or old is None or new is None:
        return False
    mine, theirs = (
        {name: value for name, value in obj.metadata.labels.items() if name.startswith(DOMAIN)} for obj in (old, new)
    )
    return mine != theirs or spec_of(old) != spec_of(new)


def _version(delta: Delta) -> str:
    obj = delta.new if delta.new is not None else delta.old
    return "" if obj is None else obj.metadata.resource_version
