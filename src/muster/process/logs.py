"""Writes JSON logs: one line per entry on stderr, with a level from 0 (always) to 9."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime

_lock = threading.Lock()


class Log:
    """The log of a process; call it with a level, a message and further fields by keyword."""

    def __init__(self, verbosity: int, **always: object) -> None:
        self._verbosity = verbosity
        self._always = always

    def __call__(self, level: int, message: str | Callable[[], str], **fields: object) -> None:
        if level > self._verbosity:
            return
        if not isinstance(message, str):
            message = message()
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"time": now, "v": level, "msg": message, **self._always, **fields}
        line = json.dumps(entry, ensure_ascii=False, default=str)
        with _lock:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def report(self, message: str) -> None:
        """Logs a problem that does not stop the process."""
        self(0, message)
