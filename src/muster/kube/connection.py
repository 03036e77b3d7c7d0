"""The HTTP connection to the API server: bounded answers, aiohttp's errors as API errors, keep-alive sockets."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import aiohttp

from muster.store import errors


class as_api_errors:
    """Raises the errors of aiohttp and of the socket as API errors."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.begin = time.monotonic()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            unsent = errors.Unreachable(self.what, str(error) or "no connection")
            unsent.sent = False
            raise unsent from error
        if isinstance(error, TimeoutError):
            passed = time.monotonic() - self.begin
            raise errors.TimedOut(self.what, f"no answer after {passed:.1f} s") from error
        if isinstance(error, aiohttp.ClientError | OSError | ssl.SSLError):
            raise errors.Unreachable(self.what, str(error) or type(error).__name__) from error


async def read_body(what: str, answer: aiohttp.ClientResponse, most: int) -> bytes:
    if answer.content_length is not None and answer.content_length > most:
        answer.close()
        raise errors.TooLarge(what, f"the answer has {answer.content_length} bytes, {most} are allowed")
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > most:
            answer.close()
            raise errors.TooLarge(what, f"the answer has more than {most} bytes")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_chunks(what: str, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    with as_api_errors(what):
        async for part in answer.content.iter_any():
            yield part


def retry_after_seconds(retry_after: str | None) -> float | None:
    # The API server writes seconds; a date, which HTTP allows too, is no reason to fail.
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None


def keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """Creates a socket that detects within about a minute that the peer has disappeared."""
    family, kind, protocol = address[0], address[1], address[2]
    made = socket.socket(family=family, type=kind, proto=protocol)
    set_keepalive(made)
    return made


def set_keepalive(open_socket: socket.socket) -> None:
    """Has the socket detect within about a minute that the peer has disappeared."""
    open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            open_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
