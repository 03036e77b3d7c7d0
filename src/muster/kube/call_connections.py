"""Keep-alive connections for calls to the API server: HTTP/1.1, one call at a time on each connection.

A scheduler makes two to four calls per pod, and most of its CPU time goes into them. aiohttp builds a request from a
dozen objects; this module writes the bytes and reads the four headers that matter. Watches and calls through a proxy
are few and go through aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple, cast
from urllib.parse import quote, urlsplit

from muster import __version__
from muster.kube.config import Access
from muster.kube.connection import set_keepalive
from muster.store import errors

IDLE_TIMEOUT_S = 75.0
MAX_HEAD_BYTES = 64 * 2**10
_NO_BODY = (204, 304)


class HttpAnswer(NamedTuple):
    status: int
    retry_after: str | None
    body: bytes


class HttpRequest(NamedTuple):
    """`query` is encoded and without the question mark; `data` None sends no body."""

    method: str
    path: str
    query: str = ""
    data: bytes | None = None
    content_type: str = ""
    authorization: str | None = None


class CallConnections:
    """The connections of one client: idle ones are used again, the one used last first."""

    def __init__(self, access: Access, connect_seconds: float) -> None:
        self._access = access
        self._connect_seconds = connect_seconds
        self._idle: list[_Connection] = []
        self._tls: ssl.SSLContext | None = None
        self._host = ""

    async def call(self, request: HttpRequest, what: str, seconds: float, most: int) -> HttpAnswer:
        """Sends the request; returns the answer, whatever its status.

        Raises Unreachable (with `sent` False if there was no connection), TimedOut, or TooLarge if the answer has more
        than `most` bytes.
        """
        loop = asyncio.get_running_loop()
        begin = loop.time()
        connection = self._take(begin) or await self._connected(what, min(self._connect_seconds, seconds))
        try:
            left = seconds - (loop.time() - begin)
            return await connection.send(self._bytes_of(request), what, left, most)
        finally:
            # A connection whose answer was not read completely is of no use to the next call.
            if connection.reusable:
                connection.idle_since = loop.time()
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Closes the idle connections; those in use are closed after their answer."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._host = ""

    def _take(self, now: float) -> _Connection | None:
        """Returns an open connection, if there is one with the current credentials."""
        if self._tls is not self._access.tls or self._host != self._access.host:
            # Client certificates belong to connections.
            self.close()
            self._use_access()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now < connection.idle_since + IDLE_TIMEOUT_S:
                return connection
            connection.close()
        return None

    def _use_access(self) -> None:
        access = self._access
        self._tls, self._host = access.tls, access.host
        parts = urlsplit(access.host)
        self._name, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._common = (
            f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nUser-Agent: muster/{__version__}\r\n"
            # Answers come uncompressed: packing costs the server more than it saves near it.
            "Accept: application/json\r\nAccept-Encoding: identity\r\n"
        )

    async def _connected(self, what: str, seconds: float) -> _Connection:
        loop = asyncio.get_running_loop()
        tls = self._tls
        server_name = (self._access.server_name or self._name) if tls is not None else None
        try:
            async with asyncio.timeout(seconds):
                _, made = await loop.create_connection(
                    _Connection, self._name, self._port, ssl=tls, server_hostname=server_name
                )
        except (OSError, TimeoutError, ValueError) as error:
            unsent = errors.Unreachable(what, str(error) or f"no connection within {seconds:g} s")
            unsent.sent = False
            raise unsent from error
        return made

    def _bytes_of(self, request: HttpRequest) -> bytes:
        target = f"{self._prefix}{request.path}?{request.query}" if request.query else self._prefix + request.path
        if not target.isascii() or not target.isprintable() or " " in target:
            target = quote(target, safe="/:?&=%,~+!*'()@;")  # nothing in it can begin another header
        text = f"{request.method} {target}{self._common}"
        authorization = request.authorization
        if authorization:
            if not authorization.isprintable():
                raise errors.BadRequest(f"{request.method} {request.path}", "the token has a control character")
            text += f"Authorization: {authorization}\r\n"
        data = request.data
        if data is None:
            return f"{text}\r\n".encode()
        return f"{text}Content-Type: {request.content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


class _Connection(asyncio.Protocol):
    """One connection, and the answer that it waits for."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[HttpAnswer] | None = None
        self._what = ""
        self._most = 0
        self._unread = bytearray()
        self._reset()

    def _reset(self) -> None:
        self._status = 0  # 0: the head of the answer is not complete
        self._retry_after: str | None = None
        self._length: int | None = None  # None: in chunks, or until the connection ends
        self._chunked = self._keep = False
        self._body = bytearray()

    async def send(self, data: bytes, what: str, seconds: float, most: int) -> HttpAnswer:
        assert self._transport is not None
        if not self.reusable:
            raise errors.Unreachable(what, "the connection was closed")
        loop = asyncio.get_running_loop()
        self.reusable = False
        self._what, self._most = what, most
        self._reset()
        self._waiting = loop.create_future()
        timer = loop.call_later(max(seconds, 0.0), self._fail_late, seconds)
        try:
            self._transport.write(data)
            return await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            # After a complete answer nothing is left to be sent; in any other case nobody reads on.
            self._transport.abort()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are of other classes
        set_keepalive(transport.get_extra_info("socket"))
        self.reusable = True

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:
            self.close()  # nobody asked for anything
            return
        self._unread += data
        try:
            if self._read():
                self._answer()
        except errors.ApiError as error:
            self._fail(error)
        except ValueError as error:
            self._fail(errors.Unreachable(self._what, f"not an HTTP answer: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        if self._status and self._length is None and not self._chunked and error is None:
            self._keep = False
            self._answer()
        else:
            self._fail(errors.Unreachable(self._what, str(error or "") or "the server closed the connection"))

    # --- reading

    def _read(self) -> bool:
        """Reads what has arrived; returns whether the answer is complete."""
        while not self._status:
            end = self._unread.find(b"\r\n\r\n")
            if end < 0:
                if len(self._unread) > MAX_HEAD_BYTES:
                    raise ValueError("its headers do not end")
                return False
            head = bytes(self._unread[: end + 2])
            del self._unread[: end + 4]
            self._read_head(head)
        if self._chunked:
            return self._read_chunks()
        if self._length is None:
            self._take(len(self._unread))
            return False
        self._take(min(self._length - len(self._body), len(self._unread)))
        return len(self._body) == self._length

    def _read_head(self, head: bytes) -> None:
        version, status = head[:9], head[9:12]
        if version not in (b"HTTP/1.1 ", b"HTTP/1.0 "):
            raise ValueError("it begins with another protocol")
        code = _number(status)
        if code < 200:
            return  # an interim answer
        fields = head.lower()
        connection = _field(fields, b"connection")
        self._keep = version == b"HTTP/1.1 " and (connection is None or b"close" not in connection)
        self._chunked = (_field(fields, b"transfer-encoding") or b"").endswith(b"chunked")
        retry_after, length = _field(fields, b"retry-after"), _field(fields, b"content-length")
        if fields.count(b"\r\ncontent-length:") > 1:
            raise ValueError("it has two lengths")
        self._retry_after = None if retry_after is None else retry_after.decode("ascii", "replace")
        if code in _NO_BODY:
            self._length = 0
        elif length is not None and not self._chunked:
            self._length = _number(length)
            if self._length > self._most:
                raise errors.TooLarge(self._what, f"the answer has {self._length} bytes, {self._most} are allowed")
        self._status = code

    def _read_chunks(self) -> bool:
        """`_length` is what the body has when the current chunk is complete; None between chunks."""
        while True:
            if self._length is None:
                end = self._unread.find(b"\r\n")
                if end < 0:
                    return False
                size = _number(bytes(self._unread[:end]).partition(b";")[0].strip(), 16)
                if size == 0:
                    return self._read_trailers(end + 2)
                del self._unread[: end + 2]
                self._length = len(self._body) + size
                if self._length > self._most:
                    raise errors.TooLarge(self._what, f"the answer has more than {self._most} bytes")
            self._take(min(self._length - len(self._body), len(self._unread)))
            if len(self._body) < self._length or len(self._unread) < 2:
                return False
            if self._unread[:2] != b"\r\n":
                raise ValueError("a chunk has another length than it says")
            del self._unread[:2]
            self._length = None

    def _read_trailers(self, begin: int) -> bool:
        """After the last chunk: an empty line, perhaps after more headers, which nobody reads."""
        if self._unread[begin : begin + 2] == b"\r\n":
            del self._unread[: begin + 2]
            return True
        end = self._unread.find(b"\r\n\r\n", begin)
        if end < 0:
            if len(self._unread) > MAX_HEAD_BYTES:
                raise ValueError("its trailers do not end")
            return False
        del self._unread[: end + 4]
        return True

    def _take(self, count: int) -> None:
        self._body += self._unread[:count]
        del self._unread[:count]
        if len(self._body) > self._most:
            raise errors.TooLarge(self._what, f"the answer has more than {self._most} bytes")

    # --- the end of a call

    def _answer(self) -> None:
        self.reusable = self._keep and not self._unread
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(HttpAnswer(self._status, self._retry_after, bytes(self._body)))

    def _fail(self, error: errors.ApiError) -> None:
        self.reusable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)

    def _fail_late(self, seconds: float) -> None:
        self._fail(errors.TimedOut(self._what, f"no answer after {seconds:.1f} s"))


def _number(digits: bytes, radix: int = 10) -> int:
    """Returns a number without a sign; `int` alone also accepts signs, underscores and the prefix 0x."""
    if not digits.isalnum() or digits[:2].lower() == b"0x":
        raise ValueError(f"{digits[:20]!r} is not a number")
    return int(digits, radix)


def _field(fields: bytes, name: bytes) -> bytes | None:
    """Returns the value of a header, in lower case as the whole head is."""
    begin = fields.find(b"\r\n" + name + b":")
    if begin < 0:
        return None
    begin += len(name) + 3
    return fields[begin : fields.index(b"\r\n", begin)].strip()
