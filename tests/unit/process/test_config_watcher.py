"""A new configuration is validated first; if it is invalid, the last valid one stays in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from builders.scheduler_objects import EVICTS
from muster.kube import Client, Recorder
from muster.model.core import ConfigMap
from muster.model.meta import Object
from muster.process.config_sources import ConfigContent, ConfigFile, InvalidConfig
from muster.process.config_watcher import ConfigMetrics, ConfigWatcher
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.scheduler.configuration import LoadedConfig, load_config, read_config
from muster.store import Severity

GOOD = ConfigContent("scheduler.yaml", EVICTS.encode())


class Changes:
    """A source that changes several times, the watcher that reads it, and what the watcher reports."""

    object = ConfigMap()

    def __init__(self, *contents: ConfigContent) -> None:
        self.used: list[LoadedConfig] = []
        self.events: list[str] = []
        self._contents = contents
        self._registry = CollectorRegistry()
        asyncio.run(self._watch())

    async def read(self) -> ConfigContent:
        return self._contents[0]

    async def watch(self) -> AsyncGenerator[ConfigContent, None]:
        for one in self._contents:
            yield one
            await asyncio.sleep(0.01)
        raise EOFError

    def record(self, obj: Object, severity: Severity, reason: str, message: str) -> None:
        self.events.append(message)

    async def _watch(self) -> None:
        pod = OwnPod(cast(Client, None), "")
        watcher = ConfigWatcher(self, load_config, pod, cast(Recorder, self), ConfigMetrics(self._registry), Log(-1))
        with suppress(ExceptionGroup):
            await watcher.run(load_config(GOOD), self.used.append)

    def metric(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(name, labels)


def test_a_valid_change_is_used_and_reported() -> None:
    other = ConfigContent("scheduler.yaml", EVICTS.replace("preempt, ", "").encode())
    changes = Changes(GOOD, other, other)
    assert [loaded.config.actions for loaded in changes.used] == [("enqueue", "allocate", "backfill")]
    assert changes.metric("muster_configuration_reloads_total", result="used") == 1
    assert changes.events == [f"version {other.version} is used"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"actions: [", "scheduler.yaml:2"),
        (b"actions: alocate\n", "alocate"),
        (b"tiers: 3\n", "tiers"),
        (b'actions: allocate\ntiers: [{plugins: [{name: "gnag"}]}]\n', "gnag"),
        (b"\xff", "UTF-8"),
        (b"", "empty"),
    ],
)
def test_an_invalid_change_is_refused_and_the_last_valid_one_stays(bad: bytes, says: str) -> None:
    found = ConfigContent("scheduler.yaml", bad)
    changes = Changes(found, found)
    assert changes.used == [] and changes.metric("muster_configuration_valid") == 0
    assert changes.metric("muster_configuration_reloads_total", result="refused") == 1
    (message,) = changes.events
    assert f"version {GOOD.version} stays in use" in message and says in message


def test_a_reverted_change_is_valid_again() -> None:
    changes = Changes(ConfigContent("scheduler.yaml", b"tiers: 3\n"), GOOD)
    assert changes.used == [] and changes.metric("muster_configuration_valid") == 1
    assert changes.events[-1] == f"version {GOOD.version} is used"


def test_a_file_that_disappears_is_an_invalid_change(tmp_path: Path) -> None:
    missing = ConfigFile(str(tmp_path / "none.yaml")).content()
    changes = Changes(missing, missing)
    assert changes.used == [] and "cannot be read: No such file" in changes.events[0]
    assert len(changes.events) == 1


def test_an_invalid_first_configuration_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("actions: alocate\n", encoding="utf-8")
    with pytest.raises(InvalidConfig, match=r"scheduler\.yaml:1"):
        read_config(str(file))
    with pytest.raises(InvalidConfig, match="cannot be read"):
        read_config(str(tmp_path / "none.yaml"))
