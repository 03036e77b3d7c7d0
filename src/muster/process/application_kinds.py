"""Follows the ConfigMap that names further kinds of applications, and the objects of those kinds.

A text that cannot be used changes nothing: the last good one stays, and an Event on the ConfigMap says why. A kind that
is not served yet is looked for until it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from muster.groups.custom_applications import (
    CONFIG_KEY,
    BadConfiguration,
    CustomApplicationConfig,
    read_custom_applications,
)
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informer import Delta, Standing
from muster.kube.informers import Informers, Wanted
from muster.kube.lists import Report
from muster.kube.resources import resource_of
from muster.model.core import ConfigMap
from muster.model.custom import CustomApplication
from muster.store import Severity, errors

AGAIN = 5.0  # seconds until a kind that the API server does not serve is looked for again
PATIENCE = 10.0  # seconds for the ConfigMap to be read; who may not read it has Kubernetes' own kinds

Kinds = tuple[type[CustomApplication], ...]
Changed = Callable[[Kinds], Awaitable[None]]


class ConfiguredKinds:
    """`kinds` are those that are followed now; whoever uses them is told when they become others."""

    def __init__(self, client: Client, informers: Informers, key: str, recorder: Recorder, report: Report) -> None:
        self.kinds: Kinds = ()
        self._known = asyncio.Event()
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._report = report
        self._key = key
        namespace, _, name = key.partition("/")
        wanted = Wanted(ConfigMap, namespace, fields=f"metadata.name={name}")
        self._maps = Informers(client, [wanted], report)
        self._maps.subscribe(self._notice)
        self._news = asyncio.Event()
        self._map: ConfigMap | None = None

    async def run(self, changed: Changed) -> None:
        """Until cancelled."""
        wanted: list[CustomApplicationConfig] = []
        async with self._maps:
            await self._maps.synced()
            while True:
                self._news.clear()
                wanted = self._read(wanted)
                missing = await self._follow(wanted, changed)
                self._known.set()
                try:
                    async with asyncio.timeout(AGAIN if missing else None):
                        await self._news.wait()
                except TimeoutError:
                    continue

    def unread(self) -> str:
        """What is waited for, in words for /readyz; empty once the ConfigMap was read."""
        return "" if self.are_known else f"waits for the ConfigMap {self._key} of further kinds"

    @property
    def are_known(self) -> bool:
        return self._known.is_set()

    async def known(self) -> None:
        """Until the ConfigMap was read for the first time, or has kept us waiting for too long."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._known.wait()
        except TimeoutError:
            self._known.set()
            self._report("the ConfigMap of further kinds cannot be read: only Kubernetes' own kinds are understood")

    async def followed(self) -> None:
        """Until the ConfigMap and the objects of the kinds that it names were read, or cannot be for now."""
        while Standing.STARTING in self._maps.standing().values() or (
            Standing.SYNCED in self._maps.standing().values() and not self.are_known
        ):
            await asyncio.sleep(0.02)
        names = [resource_of(kind).name for kind in self.kinds]
        while any(self._informers.standing().get(name) is Standing.STARTING for name in names):
            await asyncio.sleep(0.02)

    def _notice(self, delta: Delta) -> None:
        self._map = delta.new if isinstance(delta.new, ConfigMap) else None
        self._news.set()

    def _read(self, last: list[CustomApplicationConfig]) -> list[CustomApplicationConfig]:
        """What the ConfigMap says; without one nothing, with a bad one what the last good one said."""
        if self._map is None:
            return []
        try:
            return read_custom_applications(self._map.data.get(CONFIG_KEY, ""))
        except BadConfiguration as fault:
            text = f"{fault}; the last good configuration stays in use"
            self._report(f"ConfigMap {self._map.metadata.namespace}/{self._map.metadata.name}: {text}")
            self._recorder.record(self._map, Severity.WARNING, "BadConfiguration", text)
            return last

    async def _follow(self, wanted: list[CustomApplicationConfig], changed: Changed) -> bool:
        """Begin and end to follow kinds; whether some are not served yet."""
        found: list[type[CustomApplication]] = []
        missing = False
        for one in wanted:
            plural = one.plural or await self._plural(one)
            if plural:
                found.append(one.type(plural))
            missing = missing or not plural
        kinds = tuple(found)
        if kinds == self.kinds:
            return missing
        for kind in self.kinds:
            if kind not in kinds:
                await self._informers.remove(kind)
        for kind in kinds:
            if kind not in self.kinds:
                self._informers.add(kind)
        self.kinds = kinds
        self._report(f"applications by configuration: {', '.join(kind.__name__ for kind in kinds) or 'none'}")
        await changed(kinds)
        return missing

    async def _plural(self, one: CustomApplicationConfig) -> str:
        """What the API server calls the kind; empty if it does not serve it (yet)."""
        try:
            answer: dict[str, Any] = msgspec.json.decode(
                await self._client.request("GET", f"/apis/{one.group}/{one.version}")
            )
        except (errors.ApiError, msgspec.DecodeError) as fault:
            if not isinstance(fault, errors.NotFound):
                self._report(f"{one.name}: {fault}")
            return ""
        for served in answer.get("resources", ()):
            if served.get("kind") == one.kind and "/" not in served.get("name", "/"):
                return str(served["name"])
        return ""
