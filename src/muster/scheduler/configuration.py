"""Reads and validates the scheduler's configuration, and logs its findings and the requirements that it does not meet.

Each finding is logged at level 0 when it appears and every ten minutes while it persists. A gauge counts them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from msgspec import Struct
from prometheus_client import Gauge

from muster.config import DEFAULT, DEFAULT_NAME
from muster.config.types import Config
from muster.cycle.configure import effective_hash, validate_configuration
from muster.cycle.registry import plugin_class
from muster.cycle.requirements import PROVIDERS, ignored_by_kind
from muster.engine.core.state import State
from muster.model.finding import Finding
from muster.process.config_sources import ConfigContent, ConfigFile, InvalidConfig
from muster.process.logs import Log
from muster.scheduler.metrics import Metrics

REPEAT_S = 600.0
PAUSE_PER_COST = 50.0
"""The search for unmet requirements takes about a fiftieth of the cycle thread's time."""
LONGEST_PAUSE_S = 10.0


class LoadedConfig(Struct, frozen=True):
    """A valid configuration. Each leadership term builds a new Scheduler from it (Decider.use)."""

    config: Config
    version: str  # names the content, in every decision's log
    hash: str = ""  # of the effective configuration
    findings: tuple[Finding, ...] = ()


def load_config(content: ConfigContent) -> LoadedConfig:
    """Validates the content of a file or ConfigMap; InvalidConfig if it has errors."""
    return _validated(content.text(), content.source, content.version)


def read_config(path: str | None) -> LoadedConfig:
    """Validates a file, or the built-in configuration."""
    if path is None:
        return _validated(DEFAULT, DEFAULT_NAME, "built-in")
    return load_config(ConfigFile(path).content())


def _validated(text: str, name: str, version: str) -> LoadedConfig:
    scheduler, findings = validate_configuration(text, name)
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise InvalidConfig("\n".join(errors))
    return LoadedConfig(scheduler.config, version, effective_hash(scheduler), tuple(findings))


class FindingLog:
    """Logs findings. `update` gets all current findings, as often as the caller likes; equal keys are one finding."""

    def __init__(self, message: str, gauge: Gauge, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._message = message
        self._gauge = gauge
        self._log = log
        self._clock = clock
        self._logged: dict[Hashable, float] = {}

    def update(self, findings: Mapping[Any, Finding]) -> None:
        now = self._clock()
        self._gauge.clear()
        for (severity, code), count in Counter((one.severity, one.code) for one in findings.values()).items():
            self._gauge.labels(severity, code).set(count)
        for key, one in findings.items():
            if now >= self._logged.get(key, float("-inf")) + REPEAT_S:
                self._logged[key] = now
                self._log(0, f"{self._message}: {one.object}: {one.message}", severity=one.severity, code=one.code,
                          place=one.place, fix=one.fix)  # fmt: skip
        # A finding that disappears and returns within ten minutes is not logged again.
        self._logged = {key: at for key, at in self._logged.items() if now < at + REPEAT_S}


class ConfigurationFindings(FindingLog):
    """The findings about the configuration."""

    def __init__(self, metrics: Metrics, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("configuration finding", metrics.config_findings, log, clock)

    def of(self, loaded: LoadedConfig) -> None:
        self.update({one: one for one in loaded.findings})


class UnmetRequirements:
    """Looks for requirements of objects that no configured plugin meets, before each cycle, in the cycle thread."""

    def __init__(self, metrics: Metrics, log: Log, ticks: Callable[[], float]) -> None:
        self._findings = FindingLog("unmet requirement", metrics.unmet, log, ticks)
        self._ticks = ticks
        self._next = float("-inf")
        self._skipped = False
        for name in PROVIDERS:
            plugin_class(name)  # imported now, so that the first search does not seem expensive

    @property
    def due(self) -> float | None:
        """When a cycle should search again, because the last one did not."""
        return self._next if self._skipped else None

    def check(self, config: Config, state: State) -> None:
        begin = self._ticks()
        self._skipped = begin < self._next
        if self._skipped:
            return
        state.refresh()
        self._findings.update(ignored_by_kind(config, state))
        now = self._ticks()
        self._next = now + min((now - begin) * PAUSE_PER_COST, LONGEST_PAUSE_S)
