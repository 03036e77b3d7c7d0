"""The extender over HTTP(S), by the standard library alone: one thread for each connection, which stays open."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import perf_counter
from typing import Any, Protocol

import msgspec

from muster.model.extender import (
    ExtenderArgs,
    FilterResult,
    PreemptionArgs,
    PreemptionResult,
    Score,
    WireError,
    read_args,
    read_preemption,
)
from muster.server.extender.metrics import Metrics

LARGEST_BODY = 32 << 20
_HANDSHAKE = 5.0  # seconds a client has to greet
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"


class Answers(Protocol):
    """Who answers the questions."""

    @property
    def reserved(self) -> int:
        """Pods answered and not seen bound yet."""
        ...

    @property
    def waits(self) -> int:
        """Answers that waited for a binding."""
        ...

    def filter(self, args: ExtenderArgs) -> FilterResult: ...

    def prioritize(self, args: ExtenderArgs) -> list[Score]: ...

    def preempt(self, args: PreemptionArgs) -> PreemptionResult: ...


def _always() -> str:
    return ""


class Refusal(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ExtenderServer(ThreadingHTTPServer):
    """Serves until `shutdown` is called."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        at: tuple[str, int],
        scheduling: Answers,
        context: ssl.SSLContext | None = None,
        largest_body: int = LARGEST_BODY,
        ready: Callable[[], str] = _always,
    ) -> None:
        """`ready`: nothing if it can serve, else why not."""
        self.address_family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        super().__init__(at, _Handler)
        self.context = context
        self.largest_body = largest_body
        self.ready = ready
        self.verbs: dict[str, Callable[[bytes], object]] = {
            "filter": lambda body: scheduling.filter(read_args(body)),
            "prioritize": lambda body: scheduling.prioritize(read_args(body)),
            "preempt": lambda body: scheduling.preempt(read_preemption(body)),
        }
        reserved = ("gauge", "Pods answered and not seen bound yet.", lambda: float(scheduling.reserved))
        waits = ("counter", "Answers that waited for a binding.", lambda: float(scheduling.waits))
        self.metrics = Metrics({"muster_extender_reservations": reserved, "muster_extender_waits_total": waits})

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.context is None:
            super().finish_request(request, client_address)
            return
        # In the connection's own thread: a client that is slow to greet keeps nobody else waiting.
        request.settimeout(_HANDSHAKE)
        try:
            secure = self.context.wrap_socket(request, server_side=True)
        except (OSError, ssl.SSLError):
            return
        with secure:
            secure.settimeout(None)
            super().finish_request(secure, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: ExtenderServer
    protocol_version = "HTTP/1.1"
    server_version = "muster"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 300

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/healthz", "/livez"):
            self._answer(HTTPStatus.OK, b"ok\n", _TEXT)
        elif path == "/readyz":
            wrong = self.server.ready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            self._answer(status, f"{wrong or 'ok'}\n".encode(), _TEXT)
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, self.server.metrics.text().encode(), f"{_TEXT}; version=0.0.4")
        elif path.strip("/") in self.server.verbs:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"POST is the way to ask this\n", _TEXT)
        else:
            self._answer(HTTPStatus.NOT_FOUND, f"there is no {path} here\n".encode(), _TEXT)

    def do_POST(self) -> None:
        began = perf_counter()
        verb = self.path.partition("?")[0].strip("/")
        ask = self.server.verbs.get(verb)
        try:
            body = self._body()
            if ask is None:
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no /{verb} here: {', '.join(self.server.verbs)}")
            answer, status = msgspec.json.encode(ask(body)), HTTPStatus.OK
        except WireError as fault:
            status, answer = HTTPStatus.BAD_REQUEST, _fault(fault)
        except Refusal as refusal:
            status, answer = refusal.status, _fault(refusal)
        except Exception as fault:  # one bad question never stops the rest
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            answer = _fault(f"unexpected {type(fault).__name__}: {fault}")
        self._answer(status, answer, _JSON)
        self.server.metrics.count(verb if ask is not None else "other", int(status), perf_counter() - began)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the request must say its Content-Length")
        if int(length) > self.server.largest_body:
            self.close_connection = True
            most = self.server.largest_body
            # Who still sends when the connection is closed does not see the answer; what is far too much is not read.
            left = min(int(length), 2 * most)
            while left > 0 and (part := self.rfile.read(min(left, 1 << 20))):
                left -= len(part)
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {length} bytes is above the limit of {most}")
        return self.rfile.read(int(length))

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are counted, not logged: there are many a second."""


def _fault(why: object) -> bytes:
    return msgspec.json.encode({"Error": str(why)})
