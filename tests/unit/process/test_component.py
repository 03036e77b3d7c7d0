"""The process kit: what a component declares is run in the right order, and ends in the right order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from kubernetes.client import Configuration

from muster.kube import Access
from muster.kube import config as access
from muster.process.component import Component
from muster.process.logs import Log
from muster.process.settings import ClusterSettings, LeaseSettings, ProbeSettings


@dataclass(frozen=True)
class Settings:
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    lease: LeaseSettings = field(default_factory=lambda: LeaseSettings(elect=False, part="sample"))
    probes: ProbeSettings = field(default_factory=lambda: ProbeSettings(port=0))
    applications: str = ""


class Sample(Component):
    """Records what the kit calls."""

    name = "sample"

    def __init__(self, settings: Settings, faults: int = 0) -> None:
        super().__init__(settings, Log(-1))
        self.calls: list[str] = []
        self._faults = faults

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        self.calls.append("serve")
        yield {}
        self.calls.append("served")

    @asynccontextmanager
    async def prepare(self) -> AsyncIterator[None]:
        self.calls.append("prepare")
        yield

    async def lead(self) -> None:
        self.calls.append("lead")
        if self._faults:
            self._faults -= 1
            raise ValueError("an error of the component")
        try:
            await asyncio.Event().wait()
        finally:
            self.calls.append("term ended")

    async def drain(self) -> None:
        self.calls.append("drain")


def run(component: Sample, monkeypatch: pytest.MonkeyPatch, leads: int = 1) -> list[str]:
    """The calls until the component was stopped in its last term; it asks the API server for nothing."""
    monkeypatch.setattr(access, "load", lambda *_: Access(Configuration(host="http://127.0.0.1:1")))

    async def start_and_stop() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(component.process.run(stop))
        async with asyncio.timeout(10):
            while not running.done() and component.calls.count("lead") < leads:
                await asyncio.sleep(0.005)
        component.calls.append("leading" if component.process.leading() else "not leading")
        stop.set()
        await running

    asyncio.run(start_and_stop())
    assert component.registry.get_sample_value("muster_leader") == 0
    return component.calls


def test_a_component_is_started_and_ended_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = run(Sample(Settings()), monkeypatch)
    assert calls == ["serve", "prepare", "lead", "leading", "drain", "term ended", "served"]


def test_work_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = run(Sample(Settings(), faults=1), monkeypatch, leads=2)
    assert calls.count("lead") == 2 and calls[-1] == "served"


def test_a_process_that_has_not_read_its_kinds_is_not_ready() -> None:
    assert Sample(Settings()).process.ready() == "the cluster has not been read yet: waits for its turn"


def test_a_replica_that_does_not_hold_the_lease_names_it() -> None:
    lease = LeaseSettings(name="home/muster-sample", part="sample")
    assert (
        Sample(Settings(lease=lease)).process.standby_reason() == "another replica holds the Lease home/muster-sample"
    )
    assert Sample(Settings()).process.standby_reason() == ""
