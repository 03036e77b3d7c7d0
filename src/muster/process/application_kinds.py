"""Follows the ConfigMap that names further kinds of applications, and the objects of those kinds.

If the text is invalid, the last valid one stays in use, and an Event on the ConfigMap gives the reason. A kind that the
API server does not serve yet is looked for until it does.
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
from muster.kube.informer import Delta, InformerState
from muster.kube.informers import Informers, Wanted
from muster.kube.list_watch import Report
from muster.kube.resources import resource_of
from muster.model.core import ConfigMap
from muster.model.custom import CustomApplication
from muster.store import Severity, errors
from muster.workloads.table import KindTable

KIND_RETRY_PERIOD_S = 5.0  # a kind that the API server does not serve is looked for again
FIRST_READ_TIMEOUT_S = 10.0  # then only Kubernetes' own kinds are understood

Kinds = tuple[type[CustomApplication], ...]
Changed = Callable[[Kinds], Awaitable[None]]


class ConfiguredKinds:
    """The configured kinds; `run` calls its argument when they change."""

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
        self._maps.subscribe(self._on_change)
        self._changed = asyncio.Event()
        self._map: ConfigMap | None = None

    async def run(self, changed: Changed) -> None:
        """Follows the ConfigMap and its kinds until cancelled."""
        wanted: list[CustomApplicationConfig] = []
        async with self._maps:
            await self._maps.synced()
            while True:
                self._changed.clear()
                wanted = self._read(wanted)
                missing = await self._follow(wanted, changed)
                self._known.set()
                try:
                    async with asyncio.timeout(KIND_RETRY_PERIOD_S if missing else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def unread(self) -> str:
        """Returns the answer of /readyz until the ConfigMap was read; empty afterwards."""
        return "" if self.are_known else f"waits for the ConfigMap {self._key} of further kinds"

    @property
    def are_known(self) -> bool:
        return self._known.is_set()

    async def known(self) -> None:
        """Returns when the ConfigMap was read for the first time, or after a timeout."""
        try:
            async with asyncio.timeout(FIRST_READ_TIMEOUT_S):
                await self._known.wait()
        except TimeoutError:
            self._known.set()
            self._report("the ConfigMap of further kinds cannot be read: only Kubernetes' own kinds are understood")

    async def followed(self) -> None:
        """Returns when the ConfigMap and the objects of its kinds were read, or cannot be read for now."""
        while InformerState.STARTING in self._maps.states().values() or (
            InformerState.SYNCED in self._maps.states().values() and not self.are_known
        ):
            await asyncio.sleep(0.02)
        names = [resource_of(kind).name for kind in self.kinds]
        while any(self._informers.states().get(name) is InformerState.STARTING for name in names):
            await asyncio.sleep(0.02)

    def _on_change(self, delta: Delta) -> None:
        self._map = delta.new if isinstance(delta.new, ConfigMap) else None
        self._changed.set()

    def _read(self, last: list[CustomApplicationConfig]) -> list[CustomApplicationConfig]:
        """Returns the kinds that the ConfigMap names; none if it does not exist, the last valid ones if it is
        invalid."""
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
        """Starts and stops following kinds; whether some are not served yet."""
        found: list[type[CustomApplication]] = []
        missing = False
        for one in wanted:
            plural = one.plural or await self._plural(one)
            if plural:
                found.append(one.type(plural, KindTable()))
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
        """Returns the resource name of the kind; empty if the API server does not serve it (yet)."""
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
