"""The log of pods that a change of their application showed or hid, with the resourceVersion of the change.

The API server sends no event for such a pod, because only its application changed. The version of an entry is at least
that of every response that was given before the change, so a client that watches from an older or equal version gets
the entry. The pods are listed after the change is known: a client that saw a pod before the change saw it before the
list. So no pod is missed, however far the client's watch is ahead of the gate's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groups.applications import DOMAIN, OwnerLoop, PolicyLabels, hold_reason, owner_ref
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
_PAGE_SIZE = 500
_APPLICATION_KIND_NAMES = frozenset(kind.__name__ for kind in APPLICATION_KINDS)

Ref = tuple[str, str]  # kind, ns/name


class LogEntry(NamedTuple):
    """A pod (`ns/name`) to evaluate again, the node it had, and the epoch of the application's change."""

    key: str
    node: str = ""
    epoch: int = 0


class ChangeLog:
    """The entries with their versions, and the watches that subscribe to them."""

    def __init__(self, max_entries: int = MAX_LOG_ENTRIES) -> None:
        self.floor = 0
        """The log is complete from this version on; an older watch must list again."""
        self.latest_sent = 0
        """The highest resourceVersion that any response had."""
        self.epoch = 0
        """Is incremented when an application changes, which is before its pods are added to the log."""
        self.open_epochs: set[int] = set()
        """Epochs whose pods have not been added to the log yet."""
        self._log: deque[tuple[int, LogEntry]] = deque()
        self._max_entries = max_entries
        self._readers: dict[asyncio.Queue[LogEntry], None] = {}

    def __len__(self) -> int:
        return len(self._log)

    def start_at(self, version: int) -> None:
        """Declares the log complete from this version on."""
        self.floor = version

    def record_sent(self, version: str) -> None:
        """Records that a response with this version is about to be sent."""
        if version.isdecimal() and int(version) > self.latest_sent:
            self.latest_sent = int(version)

    def start_epoch(self) -> int:
        """Starts an epoch because an application changed; returns its number."""
        self.epoch += 1
        self.open_epochs.add(self.epoch)
        return self.epoch

    def add(self, changes: Iterable[LogEntry], version: str, epochs: Iterable[int] = ()) -> None:
        """Adds the pods whose visibility may differ because applications changed at `version`, in these epochs."""
        self.open_epochs.difference_update(epochs)
        at = max(self.latest_sent, int(version) if version.isdecimal() else 0)
        for change in changes:
            self._log.append((at, change))
            for reader in self._readers:
                reader.put_nowait(change)
        while len(self._log) > self._max_entries:
            self.floor = self._log.popleft()[0] + 1

    def since(self, version: str) -> list[LogEntry] | None:
        """Returns the pods to evaluate for a client that saw everything up to `version`; None if the log does not reach
        back so far."""
        if not version.isdecimal():
            return []  # the API server will reject it
        if int(version) < self.floor:
            return None
        return list(dict.fromkeys(change for at, change in self._log if at >= int(version)))

    def subscribe(self) -> asyncio.Queue[LogEntry]:
        reader: asyncio.Queue[LogEntry] = asyncio.Queue()
        self._readers[reader] = None
        return reader

    def unsubscribe(self, reader: asyncio.Queue[LogEntry]) -> None:
        self._readers.pop(reader, None)


class ChangeRecorder:
    """Takes every change of an application (`observe`) and adds its pods to the log (`run`)."""

    def __init__(
        self,
        client: Client,
        owners: OwnerResolver,
        changes: ChangeLog,
        report: Callable[[str], None],
        *,
        grouped: GroupingCache | None = None,
    ) -> None:
        """`grouped`: changes of policies and groups count as well, because pods are held by their edition."""
        self._client = client
        self._owners = owners
        self._changes = changes
        self._report = report
        self._grouping_cache = grouped
        # Namespace ("": all) → applications (None: all), version, epochs.
        self._pending: dict[str, tuple[set[Ref] | None, str, set[int]]] = {}
        self._wake = asyncio.Event()

    def observe(self, delta: Delta) -> None:
        """Starts an epoch if the change can show or hide pods."""
        namespace = delta.key.partition("/")[0]
        if delta.kind in _APPLICATION_KIND_NAMES or delta.kind in self._owners.custom():
            if _changes_visibility(delta.old, delta.new, editions=self._grouping_cache is not None):
                self._record(namespace, {(delta.kind, delta.key)}, delta)
        elif self._grouping_cache is not None:
            if self._grouping_cache.observe(delta.kind, delta.old, delta.new):
                self._record("", None, delta)
            elif delta.kind == "OverridePolicy" and spec_of(delta.old) != spec_of(delta.new):
                self._record(namespace, None, delta)

    def on_kinds_changed(self) -> None:
        """Starts an epoch for all pods, because the application kinds changed and any pod may belong to another one."""
        self._enqueue("", None, "", {self._changes.start_epoch()})

    async def run(self) -> None:
        """Adds the affected pods of each epoch to the log, until cancelled."""
        backoff = Backoff(0.1, 10.0)
        while True:
            await self._wake.wait()
            self._wake.clear()
            pending, self._pending = self._pending, {}
            for namespace, (apps, version, epochs) in pending.items():
                try:
                    found = await self._affected_pods(namespace, apps, max(epochs))
                except errors.ApiError as fault:
                    where = namespace or "all namespaces"
                    self._report(f"pods of {where} could not be checked, retried: {fault}")
                    self._enqueue(namespace, apps, version, epochs)
                    await asyncio.sleep(backoff.next())
                    continue
                backoff.reset()
                self._changes.add(found, version, epochs)

    async def _affected_pods(self, namespace: str, apps: set[Ref] | None, epoch: int) -> list[LogEntry]:
        found = []
        selection = Selection(resource_of(Pod), namespace)
        async for page in pages(self._client, selection, self._report, size=_PAGE_SIZE):
            for pod in page.objects:
                assert isinstance(pod, Pod)
                if await self._belongs_to(pod, apps):
                    found.append(LogEntry(key_of(pod), pod.spec.node_name, epoch))
        return found

    async def _belongs_to(self, pod: Pod, apps: set[Ref] | None) -> bool:
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
        # The application was deleted: its pods now belong to the object below it.
        return owner_ref(application.object) in apps

    def _record(self, namespace: str, apps: set[Ref] | None, delta: Delta) -> None:
        self._enqueue(namespace, apps, _version(delta), {self._changes.start_epoch()})

    def _enqueue(self, namespace: str, apps: set[Ref] | None, version: str, epochs: set[int]) -> None:
        known, latest, before = self._pending.get(namespace, (set(), "", set()))
        together = None if apps is None or known is None else known | apps
        self._pending[namespace] = together, max(latest, version, key=lambda text: (len(text), text)), before | epochs
        self._wake.set()


def _changes_visibility(old: Object | None, new: Object | None, *, editions: bool) -> bool:
    """Returns whether a change of an application can change the visibility of its pods."""
    before, after = (None if obj is None else hold_reason(obj.metadata.labels) for obj in (old, new))
    if (before is None) != (after is None):
        return True
    if old is None and new is not None and any(pair.required in new.metadata.labels for pair in PolicyLabels):
        return True  # its pods may have been evaluated before it was known
    if not editions or old is None or new is None:
        return False
    mine, theirs = (
        {name: value for name, value in obj.metadata.labels.items() if name.startswith(DOMAIN)} for obj in (old, new)
    )
    return mine != theirs or spec_of(old) != spec_of(new)


def _version(delta: Delta) -> str:
    obj = delta.new if delta.new is not None else delta.old
    return "" if obj is None else obj.metadata.resource_version
