"""The configuration file, followed: a change is checked first, and the last good one is kept.

The content is compared, not the file's time: a ConfigMap's volume changes by a symbolic link.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.cycle.configure import configure, default_configuration
from muster.cycle.scheduler import Scheduler
from muster.live.logs import Log
from muster.live.metrics import Metrics

LOOK_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Loaded:
    scheduler: Scheduler
    version: str  # names the content, in every decision's log


class Unusable(Exception):
    """A configuration that must not be used; one line per fault."""


def read(path: str | None) -> Loaded:
    """The configuration of the file, or the built-in one."""
    if path is None:
        return Loaded(Scheduler(default_configuration()), "built-in")
    try:
        data = Path(path).read_bytes()
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable(f"{path}: error: is not UTF-8 text (save the file as UTF-8)") from None
    except OSError as fault:
        raise Unusable(f"{path}: error: cannot be read: {fault.strerror}") from None
    config, findings = configure(text, path)
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise Unusable("\n".join(errors))
    return Loaded(Scheduler(config), hashlib.sha256(data).hexdigest()[:12])


class Reloader:
    """Run `run()` as a task; `use` gets every new configuration that may be used."""

    def __init__(self, path: str, used: Loaded, use: Callable[[Loaded], None], metrics: Metrics, log: Log) -> None:
        self._path = path
        self._used = used
        self._use = use
        self._metrics = metrics
        self._log = log
        self._refused = ""  # the version on disk that could not be used

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.look()

    async def look(self) -> None:
        version = await asyncio.to_thread(_version, self._path)
        if version in (self._used.version, self._refused):
            if version == self._used.version and self._refused:
                self._good()  # the file was put back
            return
        try:
            loaded = await asyncio.to_thread(read, self._path)
        except Unusable as why:
            self._refused = version
            self._metrics.reloads.labels("refused").inc()
            self._metrics.config_good.set(0)
            self._log(0, "configuration refused, the last good one stays", used=self._used.version, why=str(why))
            return
        self._used = loaded
        self._metrics.reloads.labels("used").inc()
        self._good()
        self._log(0, "configuration changed", version=loaded.version)
        for finding in loaded.scheduler.findings():
            self._log(0, str(finding))
        self._use(loaded)

    def _good(self) -> None:
        self._refused = ""
        self._metrics.config_good.set(1)


def _version(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
    except OSError:
        return "unreadable"
