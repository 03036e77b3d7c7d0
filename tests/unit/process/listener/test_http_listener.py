"""The listener over the wire: limits, slow clients, certificates."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fakes.flood import until
from live.certificates import Authority
from muster.process.certificates import FileTls
from muster.process.listener.http_listener import TEXT, Listener, Request, Response
from muster.process.listener.limits import Limits

QUICK = Limits(connections=4, request_s=0.6, grace_s=0.1, body_bytes=4 << 20, decoded_bytes=1 << 20)


def echo(request: Request) -> Response:
    message = f"{request.method} {request.path} {len(request.body)} {request.authenticated}"
    return Response(200, message.encode(), TEXT)


@contextmanager
def listening(handler: Any = echo, **options: Any) -> Iterator[Listener]:
    listener = Listener(
        ("127.0.0.1", 0), handler, lambda path, known: 1 << 20 if known else 1000, **{"limits": QUICK, **options}
    )
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


def ask(listener: Listener, body: bytes = b"", path: str = "/x", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def raw(listener: Listener, data: bytes) -> str:
    """All that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", listener.port), 10) as client:
        client.sendall(data)
        found = b""
        while piece := client.recv(65536):
            found += piece
        return found.decode()


def test_requests_follow_each_other_on_one_connection() -> None:
    with listening(trusted=True) as listener:
        connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)
        for size in (0, 5, 700_000, 3):
            connection.request("POST", f"/a?b={size}", b"x" * size)
            assert connection.getresponse().read().decode() == f"POST /a {size} True"
        two = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        message = raw(listener, two)
        assert message.index("GET /1 0") < message.index("GET /2 0")
        until(lambda: listener.load.body_bytes == 0)


def test_who_is_not_authenticated_may_send_less() -> None:
    with listening() as listener:
        assert ask(listener, b"x" * 1000) == (200, "POST /x 1000 False")
        status, message = ask(listener, b"x" * 1001)
        assert (status, message) == (413, "a body of 1001 bytes is above the limit of 1000\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 20 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000, 431),
        (b"\x16\x03\x01 not HTTP \r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", 408),
        (b"POST / HTTP/1.1\r\nHost:", 408),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_connection_closed(data: bytes, status: int) -> None:
    with listening() as listener:
        message = raw(listener, data)
        assert message.startswith(f"HTTP/1.1 {status} "), message
        assert "connection: close" in message.lower()
        assert ask(listener, b"x") == (200, "POST /x 1 False")


def test_a_byte_now_and_then_does_not_make_the_time_longer() -> None:
    with listening() as listener, socket.create_connection(("127.0.0.1", listener.port), 10) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < began + 5:
                client.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - began < 3


def test_silent_connections_do_not_keep_a_client_out() -> None:
    with listening(limits=Limits(connections=4, grace_s=0.1)) as listener:
        silent = [socket.create_connection(("127.0.0.1", listener.port), 10) for _ in range(12)]
        assert ask(listener, b"x") == (200, "POST /x 1 False")
        assert listener.load.closed > 0 and len(listener.load) <= 4
        for one in silent:
            one.close()


def test_stalled_bodies_are_given_up_for_one_that_comes() -> None:
    limits = Limits(grace_s=0.1, body_bytes=2 << 20)
    with listening(limits=limits, trusted=True) as listener:
        size = 1 << 20
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
        stalled = [socket.create_connection(("127.0.0.1", listener.port), 10) for _ in range(3)]
        for one in stalled:
            threading.Thread(target=lambda one=one: _ignored(one, head + b"x" * (size - 1)), daemon=True).start()
        until(lambda: listener.load.body_bytes > size)
        assert ask(listener, b"x" * size) == (200, f"POST /x {size} True")
        assert listener.load.body_bytes <= limits.body_bytes
        for one in stalled:
            one.close()


def _ignored(client: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        client.sendall(data)


def test_only_so_many_bytes_are_decoded_at_a_time() -> None:
    busy, most, lock = 0, 0, threading.Lock()

    def handler(request: Request) -> Response:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.05)
        with lock:
            busy -= 1
        return echo(request)

    limits = Limits(decoded_bytes=1 << 20)
    with listening(handler, limits=limits, trusted=True) as listener:
        asked = [threading.Thread(target=ask, args=(listener, b"x" * 600_000)) for _ in range(6)]
        for one in asked:
            one.start()
        for one in asked:
            one.join(20)
        assert most == 1


def test_a_client_that_expects_100_continue_gets_it() -> None:
    with listening() as listener, socket.create_connection(("127.0.0.1", listener.port), 10) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"ab")
        assert b"POST /x 2 False" in client.recv(1000)


def test_a_certificate_makes_a_client_authenticated(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served = map(str, authority.server("listener"))
    tls = FileTls(*served, str(authority.certificate), report=print, required=False).context
    with listening(tls=tls) as listener:
        for known in (False, True):
            trusting = ssl.create_default_context(cafile=str(authority.certificate))
            if known:
                trusting.load_cert_chain(*authority.client("scheduler", "nobody"))
            connection = http.client.HTTPSConnection("127.0.0.1", listener.port, timeout=10, context=trusting)
            connection.request("POST", "/x", b"x")
            assert connection.getresponse().read().decode() == f"POST /x 1 {known}"


def test_a_stop_waits_for_the_answer_that_is_being_made_and_closes_the_rest() -> None:
    begun = threading.Event()

    def handler(request: Request) -> Response:
        begun.set()
        time.sleep(0.3)
        return echo(request)

    found: list[tuple[int, str]] = []
    with listening(handler) as listener:
        idle = socket.create_connection(("127.0.0.1", listener.port), 10)
        asking = threading.Thread(target=lambda: found.append(ask(listener, b"x")))
        asking.start()
        begun.wait(5)
    asking.join(5)
    assert found == [(200, "POST /x 1 False")]
    assert idle.recv(10) == b""
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", listener.port), 1)
