"""Follows the kinds of applications beyond Kubernetes' own, and the objects of those kinds.

A component follows the kinds that the ConfigMap of applications names. One that forms gangs also follows the described
workload kinds: the built-in table, files, and the ConfigMap muster-workload-kinds. If a text is invalid, the last valid
one stays in use, and an Event on the ConfigMap gives the reason. A kind that the API server does not serve yet is
looked for until it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
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
from muster.model.custom import ConfiguredApplication
from muster.model.kinds import find
from muster.process.settings import default_applications, home_of, own_namespace
from muster.store import Severity, errors
from muster.store.event_reasons import EventReason
from muster.workloads.description import KindDescription, read_table
from muster.workloads.table import CONFIG_MAP, CONFIG_MAP_KEY, KindTable

KIND_RETRY_PERIOD_S = 5.0  # a kind that the API server does not serve is looked for again
FIRST_READ_TIMEOUT_S = 10.0  # then only Kubernetes' own kinds are understood

Kinds = tuple[type[ConfiguredApplication], ...]
Changed = Callable[[Kinds], Awaitable[None]]
TypeOf = Callable[[str, str], type[ConfiguredApplication]]  # plural, version → the type


@dataclass(frozen=True, slots=True)
class WorkloadTables:
    """Where the descriptions of workload kinds are, beside the built-in table."""

    config_map: str  # NAMESPACE/NAME; empty: none
    files: tuple[tuple[str, str], ...] = ()  # name, text

    @classmethod
    def of(cls, files: Iterable[str], applications: str) -> WorkloadTables:
        """The tables of these files, and the ConfigMap in the namespace that we run in, or beside a ConfigMap of
        applications that is not the default; outside a cluster there is none by default."""
        texts = ((file, Path(file).read_bytes().decode("utf-8-sig")) for file in files)
        inside = own_namespace(outside="")
        home = inside if applications in ("", default_applications()) else home_of(applications)
        return cls(f"{home}/{CONFIG_MAP}" if home else "", tuple(texts))


@dataclass(frozen=True, slots=True)
class _WantedKind:
    """A kind that is followed once the API server serves it."""

    kind: str
    api_versions: tuple[str, ...]
    type_of: TypeOf
    plural: str = ""
    """Given: discovery is not asked."""


class ConfiguredKinds:
    """The configured kinds; `run` calls its argument when they change."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        key: str,
        recorder: Recorder,
        report: Report,
        tables: WorkloadTables | None = None,
    ) -> None:
        self.kinds: Kinds = ()
        self._known = asyncio.Event()
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._report = report
        self._key = key
        self._tables = tables
        self._applications: Sequence[CustomApplicationConfig] = ()
        self._reported: dict[str, str] = {}  # by source
        self._wants_applications = tables is None
        self._following: dict[str, Informers] = {}  # ConfigMap → its informer
        self._changed = asyncio.Event()
        self._maps: dict[str, ConfigMap] = {}

    def want_applications(self) -> None:
        """Follows the ConfigMap of applications, too; a component with tables does so only from then on."""
        self._wants_applications = True
        self._changed.set()

    async def run(self, changed: Changed) -> None:
        """Follows the ConfigMaps and their kinds until cancelled."""
        async with AsyncExitStack() as stack:
            while True:
                self._changed.clear()
                await self._follow_maps(stack)
                missing = await self._follow(self._wanted(), changed)
                self._known.set()
                try:
                    async with asyncio.timeout(KIND_RETRY_PERIOD_S if missing else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    async def _follow_maps(self, stack: AsyncExitStack) -> None:
        """Starts the informers of the wanted ConfigMaps, and waits until they have read them."""
        keys = [self._tables.config_map] if self._tables is not None else []
        keys += [self._key] if self._wants_applications else []
        for key in keys:
            if key and key not in self._following:
                namespace, _, name = key.partition("/")
                wanted = Wanted(ConfigMap, namespace, fields=f"metadata.name={name}")
                informers = self._following[key] = Informers(self._client, [wanted], self._report)
                informers.subscribe(self._on_change)
                await stack.enter_async_context(informers)
                if self._tables is None:
                    await informers.synced()
        while InformerState.STARTING in self._map_states():
            await asyncio.sleep(0.02)  # with tables, a ConfigMap that cannot be read is as one that is not there

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
        if self._tables is not None:
            await self._known.wait()
        while InformerState.STARTING in (states := self._map_states()) or (
            InformerState.SYNCED in states and not self.are_known
        ):
            await asyncio.sleep(0.02)
        names = [resource_of(kind).name for kind in self.kinds]
        while any(self._informers.states().get(name) is InformerState.STARTING for name in names):
            await asyncio.sleep(0.02)

    def _map_states(self) -> list[InformerState]:
        return [state for informers in self._following.values() for state in informers.states().values()]

    def _on_change(self, delta: Delta) -> None:
        if isinstance(delta.new, ConfigMap):
            self._maps[delta.key] = delta.new
        else:
            self._maps.pop(delta.key, None)
        self._changed.set()

    # --- what the ConfigMaps say

    def _wanted(self) -> list[_WantedKind]:
        table = self._table()
        found = {one.name: _from_application(one, table) for one in self._read_applications()}
        if self._tables is not None:
            for described in table:
                # A kind that creates another one has no pods; the other one is followed.
                if described.pod_sets and find(described.api_versions[0], described.kind) is None:
                    found.setdefault(described.name, _from_description(described, table))
        return [found[name] for name in sorted(found)]

    def _read_applications(self) -> Sequence[CustomApplicationConfig]:
        """Returns the kinds that the ConfigMap names; none if it does not exist, the last valid kinds if it is
        invalid."""
        config = self._maps.get(self._key)
        try:
            self._applications = read_custom_applications(config.data.get(CONFIG_KEY, "")) if config else ()
        except BadConfiguration as fault:
            assert config is not None
            self._refuse(config, f"{fault}; the last good configuration stays in use")
        return self._applications

    def _table(self) -> KindTable:
        """Returns the built-in table with the descriptions of the files and the ConfigMap."""
        table, tables = KindTable(), self._tables
        if tables is None:
            return table
        for name, text in tables.files:
            found, wrong = read_table(text, name)
            for finding in (*wrong, *table.add(found)):
                self._report_once(name, str(finding))
        config = self._maps.get(tables.config_map)
        if config is not None:
            found, wrong = read_table(config.data.get(CONFIG_MAP_KEY, ""), f"ConfigMap {tables.config_map}")
            faults = [*wrong, *table.add(found)]
            if faults:
                self._refuse(config, f"{'; '.join(map(str, faults))}; the other descriptions are in use")
        return table

    def _refuse(self, config: ConfigMap, why: str) -> None:
        about = f"ConfigMap {config.metadata.namespace}/{config.metadata.name}"
        if self._report_once(about, f"{about}: {why}"):
            self._recorder.record(config, Severity.WARNING, EventReason.BAD_CONFIGURATION, why)

    def _report_once(self, about: str, text: str) -> bool:
        """Reports a text unless it was the last one about the same source; returns whether it did."""
        if self._reported.get(about) == text:
            return False
        self._reported[about] = text
        self._report(text)
        return True

    # --- which of them are served

    async def _follow(self, wanted: Sequence[_WantedKind], changed: Changed) -> bool:
        """Starts and stops following kinds; whether some are not served yet."""
        served = await self._served({version for one in wanted if not one.plural for version in one.api_versions})
        found: list[type[ConfiguredApplication]] = []
        for one in wanted:
            for version in one.api_versions:
                plural = one.plural or served.get((version, one.kind), "")
                if plural:
                    found.append(one.type_of(plural, version.rpartition("/")[2]))
                    break
        kinds = tuple(found)
        if kinds == self.kinds:
            return len(found) < len(wanted)
        for kind in self.kinds:
            if kind not in kinds:
                await self._informers.remove(kind)
        for kind in kinds:
            if kind not in self.kinds:
                self._informers.add(kind)
        self.kinds = kinds
        self._report(f"applications by configuration: {', '.join(kind.__name__ for kind in kinds) or 'none'}")
        await changed(kinds)
        return len(found) < len(wanted)

    async def _served(self, api_versions: set[str]) -> dict[tuple[str, str], str]:
        """Returns the plural of each kind that the API server serves under one of these API versions."""
        if not api_versions:
            return {}
        groups = await self._get("/apis")
        there = {
            str(version.get("groupVersion")) for group in groups.get("groups", ()) for version in group["versions"]
        }
        found: dict[tuple[str, str], str] = {}
        for version in sorted(api_versions & there):
            for resource in (await self._get(f"/apis/{version}")).get("resources", ()):
                if "/" not in resource.get("name", "/"):
                    found[version, resource.get("kind", "")] = str(resource["name"])
        return found

    async def _get(self, path: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = msgspec.json.decode(await self._client.request("GET", path))
            return answer
        except (errors.ApiError, msgspec.DecodeError) as fault:
            if not isinstance(fault, errors.NotFound):
                self._report(f"{path}: {fault}")
            return {}


def _from_application(one: CustomApplicationConfig, table: KindTable) -> _WantedKind:
    versions = (f"{one.group}/{one.version}",)
    return _WantedKind(one.kind, versions, lambda plural, _: one.type(plural, table), one.plural)


def _from_description(one: KindDescription, table: KindTable) -> _WantedKind:
    return _WantedKind(one.kind, one.api_versions, lambda plural, version: table.type_of(one, plural, version))
