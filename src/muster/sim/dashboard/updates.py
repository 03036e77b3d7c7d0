"""Server-sent events: notify the pages that something changed, at most ten times a second.

A result is sent at once when nothing was sent in the last tenth of a second; further ones are merged into the next
event. A change waits a moment for its result, and is then sent without it. A client gets the latest event only, so a
slow one needs no memory here; one that does not read is dropped by the listener.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web
from msgspec import json

from muster.sim.dashboard.access import HEADERS
from muster.sim.dashboard.answers import Answer, Figures

MIN_INTERVAL_S = 0.1
HEARTBEAT_S = 15.0
RETRY_MS = 2000
MAX_CLIENTS = 32


class Update(Answer):
    """The data of an event."""

    version: int
    """Of what is shown: if it has grown, views and answers may be others."""
    changes: int
    """Changes of objects since the start, also those that are not decided about yet."""
    time: float
    figures: Figures


class Updates:
    """The latest event and the clients that wait for it."""

    def __init__(self, max_clients: int = MAX_CLIENTS) -> None:
        self.latest = Update(0, 0, 0.0, Figures(0, 0, 0, 0, 0))
        self.sent = 0
        self._max_clients = max_clients
        self._clients: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")
        self._closed = False

    def __len__(self) -> int:
        return len(self._clients)

    def put(self, update: Update, within_s: float = 0.0) -> None:
        """Sends this event within so many seconds, or when a tenth of a second has passed since the last one."""
        self.latest = update
        loop = asyncio.get_running_loop()
        due = max(self._last + MIN_INTERVAL_S, loop.time() + within_s)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        if due <= loop.time():
            self._wake()
        else:
            self._timer = loop.call_at(due, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._last = asyncio.get_running_loop().time()
        self.sent += 1
        for client in self._clients:
            client.set()

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        self._wake()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answers a request with events until the client disconnects."""
        if len(self._clients) >= self._max_clients:
            raise web.HTTPServiceUnavailable(text="too many pages are open", headers={"Retry-After": "10"})
        kind = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers={**HEADERS, **kind})
        wake = asyncio.Event()
        wake.set()  # the first event says where we are
        self._clients.add(wake)
        try:
            await response.prepare(request)
            await response.write(f"retry: {RETRY_MS}\n\n".encode())
            while not self._closed:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await wake.wait()
                except TimeoutError:
                    await response.write(b": alive\n\n")
                    continue
                wake.clear()
                data = json.encode(self.latest)
                await response.write(b"event: update\ndata: " + data + b"\n\n")
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or was dropped
        finally:
            self._clients.discard(wake)
        with suppress(ConnectionError):
            await response.write_eof()
        return response
