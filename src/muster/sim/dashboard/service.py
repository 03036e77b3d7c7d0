"""Serves a dashboard: listener, access rules and the source that publishes what is shown."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvloop

from muster.process.leadership import run_until
from muster.sim.dashboard.access import Access
from muster.sim.dashboard.display import Display
from muster.sim.dashboard.listener import Listener
from muster.sim.dashboard.server import Server
from muster.sim.dashboard.settings import DashboardSettings
from muster.sim.dashboard.sources import ResultSource


@asynccontextmanager
async def served(
    display: Display, settings: DashboardSettings, tls: ssl.SSLContext | None = None,
    ready: Callable[[], str] = lambda: "",
) -> AsyncIterator[Listener]:  # fmt: skip
    """Listens while the block runs. Raises OSError if the address cannot be used."""
    access = Access(settings.host, settings.allowed_hosts, settings.token(), secure=tls is not None)
    server = Server(display, access, ready)
    listener = Listener(server.application)
    try:
        await listener.start(settings.host, settings.port, tls)
        warming = asyncio.create_task(server.warm_up())
        yield listener
        warming.cancel()
    finally:
        await listener.stop()
        server.close()


def serve_source(
    source: ResultSource, settings: DashboardSettings, tls: ssl.SSLContext | None, started: Callable[[str], None]
) -> None:
    """Serves a source until SIGTERM or SIGINT; `started` is called with the address."""

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with served(source.display, settings, tls) as listener:
            started(address(settings, listener.port))
            await run_until(stop, source.run())

    uvloop.run(main())


def address(settings: DashboardSettings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.tls_cert_file else 'http'}://{host}:{port}/"
