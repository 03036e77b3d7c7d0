"""A dashboard in this process: its server runs in a thread, and tests ask it over HTTP or with raw bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import uvloop

from muster.process.settings import ClusterSettings
from muster.sim.dashboard.inputs import ClusterInput
from muster.sim.dashboard.listener import Listener
from muster.sim.dashboard.service import served
from muster.sim.dashboard.settings import DashboardSettings
from muster.sim.dashboard.sources import FileSource, ResultSource
from muster.sim.inputs import ConfigText, default_config, read_cluster
from muster.sim.sweep.processes import TaskOutcome, attempt

JSON = {"Content-Type": "application/json", "X-Requested-By": "test"}


def source_of(objects: list[dict[str, Any]], *configurations: ConfigText) -> FileSource:
    """Returns a source with the cluster of these manifests."""
    found = read_cluster(objects)
    known = ClusterInput(found.objects, found.latest, findings=found.findings), configurations or (default_config(),)
    return FileSource("test cluster", [], known, lambda: known, lambda text: None)


class InThread:
    """Stands for a worker process: computes where it is called, with no limits."""

    def __init__(self, shared: dict[str, Any], run: Callable[..., dict[str, Any]]) -> None:
        self._shared, self._run = {"limited": True, **shared}, run

    def __class_getitem__(cls, _: object) -> type[InThread]:
        return cls

    def start(self, task: object) -> None:
        self._task = task

    def outcome(self, seconds: float | None = None) -> TaskOutcome[object]:
        return TaskOutcome(self._task, attempt(self._run, self._shared, self._task))

    def end(self) -> None:
        pass

    stop = end


class Site:
    """`with Site(source) as site: site.get("/api/v1/status")`."""

    def __init__(self, source: ResultSource, tls: ssl.SSLContext | None = None, **settings: Any) -> None:
        self.source = source
        self._tls = tls
        self.listener: Listener
        self._settings = DashboardSettings(cluster=ClusterSettings(), port=0, **settings)
        self._loop = uvloop.new_event_loop()  # as on a live cluster
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    def __enter__(self) -> Site:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()

    async def _run(self) -> None:
        async with served(self.source.display, self._settings, self._tls) as self.listener:
            task = asyncio.create_task(self.source.run())
            while self.source.display.rendering is None:
                await asyncio.sleep(0.01)
            self._started.set()
            await self._stop.wait()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def on_loop(self, call: Callable[..., object], *given: object) -> None:
        """Calls a function on the server's event loop."""
        self._loop.call_soon_threadsafe(call, *given)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[HTTPResponse, bytes]:
        """Sends a request; underscores in the names of headers are hyphens. A given Host replaces the real one."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.listener.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host="Host" in named, skip_accept_encoding=True)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for name, value in named.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        response, body = self.ask("GET", path, **headers)
        assert response.status == 200, (path, response.status, body[:500])
        return json.loads(body)

    def post(self, path: str, value: object) -> tuple[int, Any]:
        named = {name.replace("-", "_"): value for name, value in JSON.items()}
        response, body = self.ask("POST", path, json.dumps(value).encode(), **named)
        return response.status, json.loads(body)

    def raw(self, data: bytes, wait_s: float = 5.0) -> bytes:
        """Sends bytes and returns everything until the server closes the connection or is silent."""
        with socket.create_connection(("127.0.0.1", self.listener.port), wait_s) as client:
            with suppress(OSError):
                client.sendall(data)
            return received(client)


def received(client: socket.socket) -> bytes:
    found = b""
    with suppress(OSError):
        while piece := client.recv(1 << 16):
            found += piece
    return found


def until(what: str, check: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, what
        time.sleep(0.02)
