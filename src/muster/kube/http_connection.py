"""A connection to the API server: HTTP/1.1, one call at a time, its answer at once or in parts while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple, cast

from muster.kube.connection import set_keepalive
from muster.store import errors

MAX_HEAD_BYTES = 64 * 2**10
# A TLS record has at most so many bytes. Without a buffer of ours, uvloop makes one of 256 KiB for each read, which
# costs more than the rest of a call.
READ_BYTES = 16 * 2**10
# A stream that is read too slowly: from here on, the server waits.
MAX_UNREAD_BYTES = 2**20
_NO_BODY = (204, 304)


class HttpAnswer(NamedTuple):
    status: int
    retry_after: str | None
    body: bytes


class Connection(asyncio.BufferedProtocol):
    """One connection, and the answer that it waits for."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(READ_BYTES))
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

    # --- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are of other classes
        set_keepalive(transport.get_extra_info("socket"))
        self.reusable = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._receive(self._buffer[:nbytes])

    def _receive(self, data: memoryview) -> None:
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


class StreamConnection(Connection):
    """A connection whose answer is read in parts while it arrives, if its status is 2xx."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived = asyncio.Event()
        self._complete = self._paused = False
        self._lost: errors.ApiError | None = None

    @property
    def _streams(self) -> bool:
        return 200 <= self._status < 300

    async def parts(self, silence: float, interval: float) -> AsyncIterator[bytes]:
        """Yields the answer's body after `send` has returned its head.

        Raises Unreachable if the connection ends before the answer, TimedOut after `silence` seconds without data.
        """
        while True:
            self._parse()
            if self._body:
                yield self._taken()
                await asyncio.sleep(interval)
            elif self._complete:
                return
            elif self._lost is not None:
                raise self._lost
            else:
                self._arrived.clear()
                try:
                    async with asyncio.timeout(silence):
                        await self._arrived.wait()
                except TimeoutError:
                    raise errors.TimedOut(self._what, f"nothing arrived for {silence:g} s") from None

    def _parse(self) -> None:
        assert self._transport is not None
        if self._unread and not self._complete:
            try:
                self._read()
            except ValueError as error:
                raise errors.Unreachable(self._what, f"not an HTTP answer: {error}") from None
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _receive(self, data: memoryview) -> None:
        if not self._streams:
            super()._receive(data)
            return
        assert self._transport is not None
        self._unread += data
        self._arrived.set()
        if not self._paused and len(self._unread) > MAX_UNREAD_BYTES:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._streams:
            super().connection_lost(error)
            return
        if self._length is None and not self._chunked and error is None:
            self._body += self._unread
            self._complete = True
        self._lost = errors.Unreachable(self._what, str(error or "") or "the server closed the connection")
        self._arrived.set()

    def _read(self) -> bool:
        self._complete = super()._read()
        return self._complete or self._streams  # the head alone is the answer to `send`

    def _taken(self) -> bytes:
        part = bytes(self._body)
        self._body.clear()
        if self._length is not None:
            self._length -= len(part)
        return part


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
