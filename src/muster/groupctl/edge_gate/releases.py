"""Applications that are bound or unbound: which pods that concerns goes into the log.

The pods are listed after the change is known: whoever saw one under the old verdict saw it before, so none is missed,
however far the clients' watches are ahead of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster.groupctl.edge_gate.changes import Change, Changes
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groups.applications import OwnerLoop, owner_ref
from muster.groups.binding import DOMAIN, PolicyLabels, hold_reason
from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.informer import Delta
from muster.kube.lists import Selection, pages
from muster.kube.resources import resource_of
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Pod
from muster.model.meta import Object, spec_of
from muster.model.meta import key as key_of
from muster.store import errors

Ref = tuple[str, str]  # kind, ns/name
_OWN = frozenset(kind.__name__ for kind in APPLICATION_KINDS)
_PAGE = 500


class Releases:
    """Tell it of every change; `run` writes the log."""

    def __init__(
        self,
        client: Client,
        owners: OwnerResolver,
        changes: Changes,
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
