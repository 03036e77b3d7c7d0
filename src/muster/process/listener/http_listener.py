"""An HTTP/1.1 listener with a thread for each connection: its handler gets whole requests, within the limits.

The bytes are parsed by h11. A request says the length of its body, so that one above the limit is refused before it is
read.
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
_PIECE = 1 << 16
_LARGE = 1 << 19
_LOOK_AGAIN_S = 0.005
_STOPPING_S = 5.0
_BACKLOG = 1024


@dataclass(slots=True)
class Request:
    method: str
    path: str  # without the query
    body: memoryview
    authenticated: bool
    deadline: float  # by time.monotonic


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    kind: str = JSON


class Refusal(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Handler = Callable[[Request], Response]
Largest = Callable[[str, bool], int]
"""Path, and whether the client is authenticated → the largest body in bytes."""


def _say(refusal: Refusal) -> Response:
    return Response(refusal.status, f"{refusal}\n".encode(), TEXT)


class Listener:
    """`start` it; `stop` ends it once the requests in work are answered."""

    def __init__(
        self,
        at: tuple[str, int],
        handler: Handler,
        largest: Largest,
        *,
        tls: ssl.SSLContext | None = None,
        trusted: bool = False,
        limits: Limits = LIMITS,
        refused: Callable[[Refusal], Response] = _say,
    ) -> None:
        """`trusted`: every client counts as authenticated (loopback, clusters in files). Otherwise those that show a
        certificate that `tls` verifies. `refused`: how a refusal is written. OSError if it cannot listen there.
        """
        self.load = Load(limits)
        self._handler = handler
        self._largest = largest
        self._tls = tls
        self._trusted = trusted
        self._limits = limits
        self._refused = refused
        self._turns = _Turns(limits.decoded_bytes)
        self._stopping = False
        family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        self._socket = socket.create_server(at, family=family, backlog=_BACKLOG)
        self.port = int(self._socket.getsockname()[1])
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="listener")

    def start(self) -> None:
        self._accepting.start()

    def stop(self) -> None:
        """Accept nothing more, close idle connections, and wait for the answers that are being made."""
        self._stopping = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._accepting.join(_STOPPING_S)
        self._socket.close()
        until = monotonic() + _STOPPING_S
        while len(self.load) and monotonic() < until:
            self.load.abort_idle()
            sleep(_LOOK_AGAIN_S)

    # --- connections

    def _accept(self) -> None:
        while not self._stopping:
            try:
                raw, _ = self._socket.accept()
            except OSError:
                # Out of file descriptors, or the client is gone already: the next one may do better.
                sleep(_LOOK_AGAIN_S)
                continue
            connection = Connection(partial(_shut, raw))
            # Those that have to wait stay in the kernel's queue.
            while not self.load.open(connection) and not self._stopping:
                sleep(_LOOK_AGAIN_S)
            threading.Thread(target=self._serve, args=(raw, connection), daemon=True, name="connection").start()

    def _serve(self, raw: socket.socket, connection: Connection) -> None:
        client: socket.socket = raw
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                raw.settimeout(self._limits.request_s)
                client = secure = self._tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
                connection.abort = partial(_shut, client)
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
            pass  # a client that went away, or was closed at a limit
        finally:
            self.load.close(connection)
            client.close()

    def _answer(self, exchange: _Exchange, idle: float) -> bool:
        """One request; whether another one may follow."""
        connection = exchange.connection
        try:
            head = exchange.head(idle)
            if head is None:
                return False
            method, path = head.method.decode(), head.target.decode().partition("?")[0]
            body = exchange.body(head, self._largest(path, connection.authenticated))
            self.load.received(connection)
            with self._turns.taken(len(body), exchange.deadline):
                request = Request(method, path, body, connection.authenticated, exchange.deadline)
                response = self._handler(request)
            del body, request
        except Refusal as refusal:
            response = self._refused(refusal)
        except h11.RemoteProtocolError as fault:
            response = self._refused(Refusal(fault.error_status_hint or 400, f"not an HTTP request: {fault}"))
        goes_on = exchange.send(response)
        self.load.answered(connection)
        return goes_on


class _Exchange:
    """Requests and answers of one connection, each within its time."""

    def __init__(self, client: socket.socket, connection: Connection, load: Load) -> None:
        self.connection = connection
        self.deadline = 0.0
        self._client = client
        self._load = load
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=load.limits.head_bytes)

    def head(self, idle: float) -> h11.Request | None:
        """The next request's head; None: the client is done."""
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

    def body(self, head: h11.Request, largest: int) -> memoryview:
        length = dict(head.headers).get(b"content-length")
        if (length is None and head.method == b"POST") or b"transfer-encoding" in dict(head.headers):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the request must have a Content-Length")
        announced = int(length or 0)
        if announced > largest:
            self._drain(announced, 2 * largest)
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {announced} bytes is above the limit of {largest}"
            )
        if self._http.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        # A mapping of its own goes back to the system as a whole; the heap would keep what large bodies leave behind.
        body = memoryview(bytearray(announced) if announced < _LARGE else mmap(-1, announced))
        end = 0
        while isinstance(event := self._next(), h11.Data):
            size = len(event.data)
            self._take(size)
            body[end : end + size] = event.data
            end += size
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionError("the client is gone")
        return body

    def send(self, response: Response) -> bool:
        """Whether the connection stays open."""
        headers = [("Content-Type", response.kind), ("Content-Length", str(len(response.body)))]
        keep = self._http.their_state is h11.DONE
        if not keep:
            headers.append(("Connection", "close"))
        if self._http.our_state is h11.ERROR:
            return False
        self.deadline = max(self.deadline, monotonic() + 1.0)  # a refusal for lateness must still be sent
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
        self._client.settimeout(self._left())
        self._http.receive_data(self._client.recv(_PIECE))

    def _drain(self, announced: int, most: int) -> None:
        """Who still sends when the connection is closed does not see the answer. What is far too much is not read."""
        left = min(announced, most)
        with suppress(Refusal):
            while left > 0 and isinstance(event := self._next(), h11.Data):
                left -= len(event.data)

    def _take(self, size: int) -> None:
        while not self._load.take(self.connection, size):
            if self.connection.aborted:
                raise ConnectionError("closed at a limit")
            if monotonic() > self.deadline:
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are in memory: try again")
            sleep(_LOOK_AGAIN_S)

    def _write(self, *events: h11.Event) -> None:
        pieces = [self._http.send(event) or b"" for event in events]
        if sum(map(len, pieces)) <= _PIECE:
            pieces = [b"".join(pieces)]  # one packet, where it fits
        for piece in pieces:
            view = memoryview(piece)
            while view:
                self._client.settimeout(self._left())
                view = view[self._client.send(view) :]

    def _left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Turns:
    """Bodies that are decoded and answered at a time: the smallest first, and of these the one that came first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._waiting: list[tuple[int, int]] = []  # size and number: a heap
        self._numbers = count()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, size: int, deadline: float) -> Iterator[None]:
        size = min(size, self._most)
        with self._changed:
            me = (size, next(self._numbers))
            heappush(self._waiting, me)
            fits = self._changed.wait_for(
                lambda: self._waiting[0] == me and self._used + size <= self._most, max(deadline - monotonic(), 0.0)
            )
            self._waiting.remove(me)
            heapify(self._waiting)
            if fits:
                self._used += size
            self._changed.notify_all()
        if not fits:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered: try again")
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()


def _shut(client: socket.socket) -> None:
    with suppress(OSError):
        # Not SSLSocket's own, which takes the TLS away from the thread that reads.
        socket.socket.shutdown(client, socket.SHUT_RDWR)
