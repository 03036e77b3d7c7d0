"""What the verbs on a live cluster share: they run until SIGTERM or SIGINT, and say clearly why they cannot begin."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from muster.cli.reading import BadInput

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def run_until_stopped(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run it; the event it is given is set by the first signal."""
    from muster.kube.config import NoAccess

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(stop)

    try:
        asyncio.run(main())
    except NoAccess as why:
        raise BadInput(f"muster: {why}") from None
    except OSError as fault:
        raise BadInput(f"muster: cannot listen: {fault.strerror or fault}") from None


def own_namespace() -> str:
    """The namespace of the pod we run in; outside a cluster kube-system, which is always there."""
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip() or "kube-system"
    except OSError:
        return "kube-system"
