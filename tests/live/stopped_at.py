"""`muster scheduler` that stops itself (SIGSTOP) right before it sends its k-th call that writes to the cluster.

Called as `python -m live.stopped_at K scheduler …`. The lease was checked a moment before: when somebody continues the
process (SIGCONT), it sends the call whatever the time is. Calls are counted, and made one after the other, as in
`live.killed_at`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from live.killed_at import counted
from muster.cli import main
from muster.kube.client import Client


def stop_at(number: int) -> None:
    sent = Client._once
    calls = 0

    async def once(self: Client, call: Any, *how: Any) -> bytes:
        nonlocal calls
        if not counted(call.method, call.path, call.data or b""):
            return await sent(self, call, *how)
        mine, calls = calls, calls + 1
        print(f"call {mine}: {call.method} {call.path}", file=sys.stderr, flush=True)
        if mine == number:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            answer = await sent(self, call, *how)
        except Exception as error:
            print(f"refused {mine}: {error}", file=sys.stderr, flush=True)
            raise
        print(f"accepted {mine}", file=sys.stderr, flush=True)
        return answer

    Client._once = once  # type: ignore[method-assign]


if __name__ == "__main__":
    stop_at(int(sys.argv.pop(1)))
    sys.argv += ["--binds-in-flight", "1"]
    main()
