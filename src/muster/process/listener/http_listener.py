"""An HTTP/1.1 listener with a thread for each connection: its handler gets complete requests, within the limits.

The bytes are parsed by h11. A request must announce the length of its body, so that a body above the limit is refused
before it is read.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappush
from http import HTTPStatus
from itertools import count
from mmap import mmap
from time import monotonic, sleep

import h11

from muster.process.listener.limits import LIMITS, Connection, Limits, Load

TEXT, JSON = "text/plain; charset=utf-8", "application/json"
_CHUNK_BYTES = 1 << 16
_MAPPED_BODY_BYTES = 1 << 19
_POLL_PERIOD_S = 0.005
_STOP_TIMEOUT_S = 5.0
_BACKLOG_CONNECTIONS = 1024


@dataclass(slots=True)
class Request:
    """A complete request."""

    method: str
    path: str  # without the query
    body: memoryview
    authenticated: bool
    deadline: float  # by time.monotonic


@dataclass(slots=True)
class Response:
    """A response; `kind` is its content type."""

    status: int
    body: bytes
    kind: str = JSON


class Refusal(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Handler = Callable[[Request], Response]
BodyLimit = Callable[[str, bool], int]
"""Takes the path and whether the client is authenticated; returns the largest allowed body in bytes."""


def _as_text(refusal: Refusal) -> Response:
    return Response(refusal.status, f"{refusal}\n".encode(), TEXT)


class Listener:
    """Listens from `start` until `stop`, which waits for the requests in progress."""

    def __init__(
        self,
        at: tuple[str, int],
        handler: Handler,
        body_limit: BodyLimit,
        *,
        tls: ssl.SSLContext | None = None,
        trusted: bool = False,
        limits: Limits = LIMITS,
        format_refusal: Callable[[Refusal], Response] = _as_text,
    ) -> None:
        """`trusted`: every client counts as authenticated (loopback, clusters in files). Otherwise only clients with a
        certificate that `tls` verifies. `format_refusal` writes a refusal. Raises OSError if it cannot listen.
        """
        self.load = Load(limits)
        self._handler = handler
        self._body_limit = body_limit
        self._tls = tls
        self._trusted = trusted
        self._limits = limits
        self._format_refusal = format_refusal
        self._decode_queue = _DecodeQueue(limits.decoded_bytes)
        self._stopping = False
        family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        self._socket = socket.create_server(at, family=family, backlog=_BACKLOG_CONNECTIONS)
        self.port = int(self._socket.getsockname()[1])
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="listener")

    def start(self) -> None:
        self._accepting.start()

    def stop(self) -> None:
        """Accepts no more connections, closes idle connections and waits for the responses in progress."""
        self._stopping = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._accepting.join(_STOP_TIMEOUT_S)
        self._socket.close()
        until = monotonic() + _STOP_TIMEOUT_S
        while len(self.load) and monotonic() < until:
            self.load.abort_idle()
            sleep(_POLL_PERIOD_S)

    # --- connections

    def _accept(self) -> None:
        while not self._stopping:
            try:
                raw, _ = self._socket.accept()
            except OSError:
                # Out of file descriptors, or the client has disconnected: the next one may succeed.
                sleep(_POLL_PERIOD_S)
                continue
            connection = Connection(partial(_shut_down, raw))
            # Further connections wait in the kernel's backlog.
            while not self.load.open(connection) and not self._stopping:
                sleep(_POLL_PERIOD_S)
            threading.Thread(target=self._serve, args=(raw, connection), daemon=True, name="connection").start()

    def _serve(self, raw: socket.socket, connection: Connection) -> None:
        client: socket.socket = raw
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                raw.settimeout(self._limits.request_s)
                client = secure = self._tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
                connection.abort = partial(_shut_down, client)
                if connection.aborted:
                    return
                secure.do_handshake()
                connection.authenticated = bool(secure.getpeercert())
            connection.authenticated = connection.authenticated or self._trusted
            exchange = _Exchange(client, connection, self.load)
            idle = self._limits.request_s
            while not self._stopping and self._answer(exchange, idle):
                idle = self._limits.idle_s
        except (OSError, ValueError):
            pass  # the client disconnected, or was closed at a limit
        finally:
            self.load.close(connection)
            client.close()

    def _answer(self, exchange: _Exchange, idle: float) -> bool:
        """Answers one request; returns whether another one may follow."""
        connection = exchange.connection
        try:
            head = exchange.head(idle)
            if head is None:
                return False
            method, path = head.method.decode(), head.target.decode().partition("?")[0]
            body = exchange.body(head, self._body_limit(path, connection.authenticated))
            self.load.received(connection)
            with self._decode_queue.admitted(len(body), exchange.deadline):
                request = Request(method, path, body, connection.authenticated, exchange.deadline)
                response = self._handler(request)
            del body, request
        except Refusal as refusal:
            response = self._format_refusal(refusal)
        except h11.RemoteProtocolError as fault:
            response = self._format_refusal(Refusal(fault.error_status_hint or 400, f"not an HTTP request: {fault}"))
        keep_open = exchange.send(response)
        self.load.answered(connection)
        return keep_open


class _Exchange:
    """Reads the requests and writes the responses of one connection, each before its deadline."""

    def __init__(self, client: socket.socket, connection: Connection, load: Load) -> None:
        self.connection = connection
        self.deadline = 0.0
        self._client = client
        self._load = load
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=load.limits.head_bytes)

    def head(self, idle: float) -> h11.Request | None:
        """Reads the next request's head; None if the client has closed the connection or is idle for too long."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        self.deadline = monotonic() + idle
        if not self._http.trailing_data[0]:
            try:
                self._receive()
            except TimeoutError:
                return None
        self._load.began(self.connection)
        self.deadline = monotonic() + self._load.limits.request_s
        event = self._next()
        return event if isinstance(event, h11.Request) else None

    def body(self, head: h11.Request, body_limit: int) -> memoryview:
        """Reads the body; raises Refusal if it is too large or its length is missing."""
        length = dict(head.headers).get(b"content-length")
        if (length is None and head.method == b"POST") or b"transfer-encoding" in dict(head.headers):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the request must have a Content-Length")
        announced = int(length or 0)
        if announced > body_limit:
            self._drain(announced, 2 * body_limit)
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {announced} bytes is above the limit of {body_limit}"
            )
        if self._http.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        # A separate mapping is returned to the system; the heap would keep the memory of large bodies.
        body = memoryview(bytearray(announced) if announced < _MAPPED_BODY_BYTES else mmap(-1, announced))
        end = 0
        while isinstance(event := self._next(), h11.Data):
            size = len(event.data)
            self._count_bytes(size)
            body[end : end + size] = event.data
            end += size
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionError("the client is gone")
        return body

    def send(self, response: Response) -> bool:
        """Writes a response; returns whether the connection stays open."""
        headers = [("Content-Type", response.kind), ("Content-Length", str(len(response.body)))]
        keep = self._http.their_state is h11.DONE
        if not keep:
            headers.append(("Connection", "close"))
        if self._http.our_state is h11.ERROR:
            return False
        self.deadline = max(self.deadline, monotonic() + 1.0)  # a refusal because of a timeout must still be sent
        events = (
            h11.Response(status_code=response.status, headers=headers), h11.Data(data=response.body), h11.EndOfMessage()
        )  # fmt: skip
        self._write(*events)
        return keep and self._http.our_state is h11.DONE

    def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            try:
                self._receive()
            except TimeoutError:
                seconds = self._load.limits.request_s
                raise Refusal(HTTPStatus.REQUEST_TIMEOUT, f"the request was not here after {seconds:g} s") from None
        return event

    def _receive(self) -> None:
        self._client.settimeout(self._time_left())
        self._http.receive_data(self._client.recv(_CHUNK_BYTES))

    def _drain(self, announced: int, most: int) -> None:
        """Reads the rest of a refused body: a client that is still sending when the connection closes does not see the
        response. A body that is far too large is not read."""
        left = min(announced, most)
        with suppress(Refusal):
            while left > 0 and isinstance(event := self._next(), h11.Data):
                left -= len(event.data)

    def _count_bytes(self, size: int) -> None:
        while not self._load.take(self.connection, size):
            if self.connection.aborted:
                raise ConnectionError("closed at a limit")
            if monotonic() > self.deadline:
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are in memory: try again")
            sleep(_POLL_PERIOD_S)

    def _write(self, *events: h11.Event) -> None:
        pieces = [self._http.send(event) or b"" for event in events]
        if sum(map(len, pieces)) <= _CHUNK_BYTES:
            pieces = [b"".join(pieces)]  # one packet if it fits
        for piece in pieces:
            view = memoryview(piece)
            while view:
                self._client.settimeout(self._time_left())
                view = view[self._client.send(view) :]

    def _time_left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _DecodeQueue:
    """Limits the bytes of the bodies that are decoded at a time: smallest first, then first come, first served."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._waiting: list[tuple[int, int]] = []  # size and number: a heap
        self._numbers = count()
        self._changed = threading.Condition()

    @contextmanager
    def admitted(self, size: int, deadline: float) -> Iterator[None]:
        """Waits until the body may be decoded; raises Refusal after the deadline."""
        size = min(size, self._limit_bytes)
        with self._changed:
            ticket = (size, next(self._numbers))
            heappush(self._waiting, ticket)
            fits = self._changed.wait_for(
                lambda: self._waiting[0] == ticket and self._used_bytes + size <= self._limit_bytes,
                max(deadline - monotonic(), 0.0),
            )
            self._waiting.remove(ticket)
            heapify(self._waiting)
            if fits:
                self._used_bytes += size
            self._changed.notify_all()
        if not fits:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered: try again")
        try:
            yield
        finally:
            with self._changed:
                self._used_bytes -= size
                self._changed.notify_all()


def _shut_down(client: socket.socket) -> None:
    with suppress(OSError):
        # Not SSLSocket.shutdown, which removes the TLS object that the reading thread uses.
        socket.socket.shutdown(client, socket.SHUT_RDWR)
