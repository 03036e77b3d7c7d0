"""`muster scheduler` or another verb that kills itself (SIGKILL) right before its k-th call that writes to the cluster.

Called as `python -m live.killed_at K scheduler …`. Leases, reviews, events and statuses that only report do not count:
they are no part of a commit. Calls are made one after the other, so that before the k-th all others have been answered:
each k is another beginning of a commit.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from muster.cli import main
from muster.kube.client import Client


def counted(method: str, path: str, body: bytes) -> bool:
    if path.endswith("/status"):
        return b'"annotations"' in body  # a journal, or what is noted on a victim
    asks = "/leases" in path or "/authorization.k8s.io/" in path  # a review of permissions is a POST that only asks
    return method not in ("GET", "HEAD") and not asks and not path.endswith("/events")


def kill_at(number: int) -> None:
    sent = Client._once
    calls = 0

    async def once(self: Client, call: Any, *how: Any) -> bytes:
        nonlocal calls
        if counted(call.method, call.path, call.data or b""):
            print(f"call {calls}: {call.method} {call.path}", file=sys.stderr, flush=True)
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
        return await sent(self, call, *how)

    Client._once = once  # type: ignore[method-assign]


if __name__ == "__main__":
    kill_at(int(sys.argv.pop(1)))
    if sys.argv[1] == "scheduler":
        sys.argv += ["--binds-in-flight", "1"]
    main()
