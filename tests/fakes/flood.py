"""Clients that exhaust a listener: many connections at once, with bodies that are large, slow or hostile."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path

PIECE = b" " * (1 << 20)


class Flood:
    """`with Flood(port, 200, …)`: every connection announces `announced` bytes, sends `first` and then `size` spaces,
    and a byte a second after that. One that is closed begins anew."""

    def __init__(
        self, port: int, connections: int, *, announced: int, size: int, first: bytes = b"", path: str = "/filter",
        tls: ssl.SSLContext | None = None, host: str = "127.0.0.1",
    ) -> None:  # fmt: skip
        self.sent = 0
        self.opened = 0
        self._at = (host, port)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {announced}\r\n\r\n".encode()
        self._begin = head + first
        self._size = size
        self._tls = tls
        self._over = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(connections)]

    def __enter__(self) -> Flood:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for client in list(self._open):  # a thread that waits for the server to read ends at once
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for one in self._threads:
            one.join(15)

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                self._attack()
            self._over.wait(0.05)

    def _attack(self) -> None:
        with contextlib.ExitStack() as at_end:
            plain = at_end.enter_context(socket.create_connection(self._at, 10))
            self.opened += 1
            client = plain if self._tls is None else at_end.enter_context(self._tls.wrap_socket(plain))
            client.settimeout(10)
            self._open.add(client)
            at_end.callback(self._open.discard, client)
            client.sendall(self._begin)
            left = self._size
            while left > 0 and not self._over.is_set():
                part = PIECE[: min(left, len(PIECE))]
                client.sendall(part)
                left -= len(part)
                self.sent += len(part)
            while not self._over.wait(1.0):
                client.sendall(b" ")


class Memory:
    """`with Memory(pid) as memory`: the largest resident set of a process in MiB while the block ran."""

    def __init__(self, pid: int) -> None:
        self.peak = 0.0
        self._file = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            with contextlib.suppress(OSError, StopIteration):
                lines = self._file.read_text(encoding="utf-8").splitlines()
                resident = next(line for line in lines if line.startswith("VmRSS"))
                self.peak = max(self.peak, int(resident.split()[1]) / 1024)


def until(true: object, seconds: float = 30.0) -> None:
    """Wait for a condition (a function) to hold."""
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.02)
