"""The limits of a listener: connections, time per request, and bytes of request bodies in memory.

At a limit the connection that has waited for its client longest is closed: first those of unauthenticated clients,
never one whose request is being answered. A slow or silent client therefore cannot exclude one that sends at once.
A connection that is being closed counts as free before its thread has ended: no second one is closed in its place.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one listener."""

    connections: int = 64
    request_s: float = 10.0  # from the first byte of a request to the last of its answer; for a handshake, too
    idle_s: float = 300.0  # between two requests of a connection
    body_bytes: int = 256 * MIB  # of all requests in memory
    # Bodies that are decoded and answered at a time, or one that is larger: JSON takes many times its size in memory.
    decoded_bytes: int = 4 * MIB
    head_bytes: int = 64 << 10
    grace_s: float = 0.5  # a connection that waits for less time is not closed in favour of another one


LIMITS = Limits()


@dataclass(slots=True, eq=False)
class Connection:
    """An open connection. `abort` closes it; it may be called from any thread, and more than once."""

    abort: Callable[[], None]
    authenticated: bool = False
    answering: bool = False  # the request is complete
    since: float = 0.0  # when it was opened, or its last answer ended, or the request began that is being received
    body_bytes: int = 0  # of its request, in memory
    aborted: bool = field(default=False)


class Load:
    """The open connections of a listener and the bytes of their request bodies. No method blocks."""

    def __init__(self, limits: Limits = LIMITS, now: Callable[[], float] = monotonic) -> None:
        self.limits = limits
        self.closed = 0  # connections that were closed at a limit
        self.body_bytes = 0
        self._now = now
        self._open: dict[Connection, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, connection: Connection) -> bool:
        """Counts a connection; False if there are too many: then one is closed if possible. Call again."""
        with self._lock:
            if len(self._open) >= self.limits.connections:
                if len(self._open) - len(self._aborted()) >= self.limits.connections:
                    self._close_one(lambda one: True)
                return False
            connection.since = self._now()
            self._open[connection] = None
            return True

    def close(self, connection: Connection) -> None:
        """Counts a connection as closed."""
        with self._lock:
            self._open.pop(connection, None)
            self._release(connection)

    def take(self, connection: Connection, size: int) -> bool:
        """Counts bytes of a body; False if there are too many: then another connection is closed if possible. Call
        again."""
        with self._lock:
            if self.body_bytes + size > self.limits.body_bytes:
                freed = sum(one.body_bytes for one in self._aborted())
                if self.body_bytes - freed + size > self.limits.body_bytes:
                    self._close_one(lambda one: one.body_bytes > 0 and one is not connection)
                return False
            self.body_bytes += size
            connection.body_bytes += size
            return True

    def began(self, connection: Connection) -> None:
        """Records the first byte of a request."""
        connection.since = self._now()

    def received(self, connection: Connection) -> None:
        """Records that a request is complete and will be answered."""
        connection.answering = True

    def answered(self, connection: Connection) -> None:
        """Records that the answer was sent and the connection is idle."""
        with self._lock:
            self._release(connection)
            connection.answering, connection.since = False, self._now()

    def abort_idle(self) -> None:
        """Closes all connections but those that are being answered."""
        with self._lock:
            for one in self._open:
                if not one.answering:
                    one.abort()

    def _aborted(self) -> list[Connection]:
        """Returns the connections that were closed at a limit and whose threads have not ended yet."""
        return [one for one in self._open if one.aborted and not one.answering]

    def _release(self, connection: Connection) -> None:
        self.body_bytes -= connection.body_bytes
        connection.body_bytes = 0

    def _close_one(self, eligible: Callable[[Connection], bool]) -> None:
        late = self._now() - self.limits.grace_s
        found = [
            one for one in self._open if not one.answering and not one.aborted and one.since <= late and eligible(one)
        ]
        if found:
            victim = min(found, key=lambda one: (one.authenticated, one.since))
            victim.aborted = True
            self.closed += 1
            victim.abort()


def is_loopback(host: str) -> bool:
    """Returns whether only processes on the same machine (in the same pod) can connect to this address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
