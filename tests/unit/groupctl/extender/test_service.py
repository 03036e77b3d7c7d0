"""The extender as a component: its server also serves the metrics of the process kit."""

from __future__ import annotations

import asyncio
import http.client

import pytest

from fakes.faulty_api import FaultyApi, run, until
from muster.groupctl.extender.service import ExtenderService
from muster.groupctl.extender.settings import ExtenderSettings
from muster.kube import config as access
from muster.process.logs import Log
from muster.process.settings import ClusterSettings, LeaseSettings


def test_the_metrics_name_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = LeaseSettings(elect=False, part="extender")
    settings = ExtenderSettings(cluster=ClusterSettings(), lease=lease, port=0, applications="home/kinds")
    service = ExtenderService(settings, Log(-1))

    def metrics() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", service._server.port, timeout=10)
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()

    async def story(api: FaultyApi) -> str:
        monkeypatch.setattr(access, "load", lambda *_: api.access())
        stop = asyncio.Event()
        running = asyncio.create_task(service.process.run(stop))
        await until(lambda: running.done() or service.process.at_work)
        text = await asyncio.to_thread(metrics)
        stop.set()
        await running
        return text

    text = run(story)
    assert "muster_leader 1.0" in text
    assert "muster_permission_denied" in text and "muster_extender_connections 1.0" in text
