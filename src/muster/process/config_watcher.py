"""Watches a configuration while the process runs, and reports whether each version is used.

A new version is validated first; if it is invalid, the last valid one stays in use. The result is a condition of this
process's own pod and an Event on the ConfigMap (else on the pod). Every replica reports for itself, so these calls need
no lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from muster.kube.backoff import Backoff
from muster.kube.events import Recorder
from muster.model.finding import Finding
from muster.process.config_sources import ConfigContent, ConfigSource, InvalidConfig
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.store import Severity, errors
from muster.store.event_reasons import EventReason

CONDITION = "muster.io/ConfigurationValid"


class Configuration(Protocol):
    """The configuration that a component loads from the content."""

    @property
    def version(self) -> str: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


C = TypeVar("C", bound=Configuration)


@dataclass(frozen=True, slots=True)
class ConfigStatus:
    """The version in use, its warnings, and why the latest version is not used."""

    used: str
    refused: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Configuration, refused: str = "") -> ConfigStatus:
        """Notices are in the log only."""
        warnings = tuple(str(one) for one in config.findings if one.severity != "notice")
        return cls(config.version, refused, warnings)

    @property
    def reason(self) -> EventReason:
        return EventReason.CONFIGURATION_REFUSED if self.refused else EventReason.CONFIGURATION_USED

    @property
    def message(self) -> str:
        if self.refused:
            return f"{self.refused}\nversion {self.used} stays in use"
        return "\n".join((f"version {self.used} is used", *self.warnings))


class ConfigMetrics:
    """Counts reloads, and shows whether the latest version is the one in use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reloads = Counter(
            "muster_configuration_reloads", "Configurations read again, by result", ["result"], registry=registry
        )
        self.valid = Gauge(
            "muster_configuration_valid", "1 while the configuration found is the one in use", registry=registry
        )
        self.valid.set(1)


class ConfigWatcher(Generic[C]):
    """Watches a source; `load` turns the content into a configuration and raises InvalidConfig."""

    def __init__(
        self, source: ConfigSource, load: Callable[[ConfigContent], C], pod: OwnPod, recorder: Recorder,
        metrics: ConfigMetrics, log: Log,
    ) -> None:  # fmt: skip
        self._source = source
        self._load = load
        self._recorder = recorder
        self._metrics = metrics
        self._log = log
        self._pod = pod
        self._statuses: asyncio.Queue[ConfigStatus] = asyncio.Queue()
        self._refused = ""  # the latest version, if it is invalid

    async def first(self) -> C:
        """Loads the first configuration; raises InvalidConfig if there is none."""
        try:
            return self._load(await self._source.read())
        except InvalidConfig as why:
            status = ConfigStatus("none", str(why))
            self._record_event(status)
            with suppress(errors.ApiError):  # the process ends and prints the reason itself
                await self._patch_condition(status)
            raise

    async def run(self, used: C, use: Callable[[C], None]) -> None:
        """Calls `use` with every new valid configuration, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report(ConfigStatus.of(used)))
            async with aclosing(self._source.watch()) as contents:
                async for content in contents:
                    used = await self._apply(content, used, use)

    async def _apply(self, content: ConfigContent, used: C, use: Callable[[C], None]) -> C:
        """Returns the configuration that is in use after this content was read."""
        version = content.version
        if version in (used.version, self._refused):
            if version == used.version and self._refused:
                self._accepted(used)  # the user reverted the change
            return used
        try:
            loaded = await asyncio.to_thread(self._load, content)
        except InvalidConfig as why:
            self._refused = version
            self._metrics.reloads.labels("refused").inc()
            self._metrics.valid.set(0)
            self._log(0, "configuration refused, the last good one stays", used=used.version, refused=version,
                      why=str(why))  # fmt: skip
            self._statuses.put_nowait(ConfigStatus.of(used, str(why)))
            return used
        self._metrics.reloads.labels("used").inc()
        self._log(0, "configuration changed", version=loaded.version)
        use(loaded)
        self._accepted(loaded)
        return loaded

    def _accepted(self, used: C) -> None:
        self._refused = ""
        self._metrics.valid.set(1)
        self._statuses.put_nowait(ConfigStatus.of(used))

    # --- status

    async def _report(self, status: ConfigStatus) -> None:
        """Writes the first status as a condition only, because nothing has changed; later statuses also as Events."""
        while True:
            await self._write_condition(status)
            status = await self._statuses.get()
            self._record_event(status)

    def _record_event(self, status: ConfigStatus) -> None:
        about = self._source.object or self._pod.object
        if about is not None:
            severity = Severity.WARNING if status.refused or status.warnings else Severity.NORMAL
            self._recorder.record(about, severity, status.reason, status.message)

    async def _write_condition(self, status: ConfigStatus) -> None:
        """Tries until the condition is written or a newer status is queued."""
        backoff = Backoff(1.0, 60.0)
        while self._statuses.empty():
            try:
                await self._patch_condition(status)
                return
            except errors.ApiError as error:
                self._log(0, "our own pod got no condition", pod=self._pod.key, why=str(error))
                if isinstance(error, errors.NotFound | errors.Forbidden):
                    return
            await asyncio.sleep(backoff.next())

    async def _patch_condition(self, status: ConfigStatus) -> None:
        await self._pod.set_condition(
            CONDITION, status=not status.refused, reason=status.reason, message=status.message
        )
