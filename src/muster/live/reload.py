"""Configurations: what is found is checked first, and the last good one stays in use.

Contents are compared, not times: a ConfigMap's volume changes by a symbolic link, an object by many things beside.
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


@dataclass(frozen=True, slots=True)
class Loaded:
    scheduler: Scheduler
    version: str  # names the content, in every decision's log


@dataclass(frozen=True, slots=True)
class Found:
    """What stands where the configuration should be: its content, or why there is none."""

    where: str
    content: bytes = b""
    fault: str = ""

    @property
    def version(self) -> str:
        return f"({self.fault})" if self.fault else hashlib.sha256(self.content).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The version that is used, and why the one found last is not."""

    used: str
    refused: str = ""


class Unusable(Exception):
    """A configuration that must not be used; one line per fault."""


def find(path: str) -> Found:
    """The file as it is now."""
    try:
        return Found(path, Path(path).read_bytes())
    except OSError as fault:
        return Found(path, fault=f"cannot be read: {fault.strerror}")


def checked(found: Found) -> Loaded:
    """Ready to be used."""
    if found.fault:
        raise Unusable(f"{found.where}: error: {found.fault}")
    try:
        text = found.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable(f"{found.where}: error: is not UTF-8 text (save it as UTF-8)") from None
    config, findings = configure(text, found.where)
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise Unusable("\n".join(errors))
    return Loaded(Scheduler(config), found.version)


def read(path: str | None) -> Loaded:
    """The configuration of the file, or the built-in one."""
    return Loaded(Scheduler(default_configuration()), "built-in") if path is None else checked(find(path))


class Reloader:
    """`use` gets every new configuration that may be used, `tell` hears what became of each."""

    def __init__(
        self, used: Loaded, use: Callable[[Loaded], None], tell: Callable[[Verdict], None], metrics: Metrics, log: Log
    ) -> None:
        self._used = used
        self._use = use
        self._tell = tell
        self._metrics = metrics
        self._log = log
        self._refused = ""  # the version found last, if it could not be used

    async def take(self, found: Found) -> None:
        """What was found, changed or not."""
        version = found.version
        if version in (self._used.version, self._refused):
            if version == self._used.version and self._refused:
                self._good()  # it was put back
            return
        try:
            loaded = await asyncio.to_thread(checked, found)
        except Unusable as why:
            self._refused = version
            self._metrics.reloads.labels("refused").inc()
            self._metrics.config_good.set(0)
            self._log(0, "configuration refused, the last good one stays", used=self._used.version, refused=version,
                      why=str(why))  # fmt: skip
            self._tell(Verdict(self._used.version, str(why)))
            return
        self._used = loaded
        self._metrics.reloads.labels("used").inc()
        self._log(0, "configuration changed", version=loaded.version)
        for finding in loaded.scheduler.findings():
            self._log(0, str(finding))
        self._use(loaded)
        self._good()

    def _good(self) -> None:
        self._refused = ""
        self._metrics.config_good.set(1)
        self._tell(Verdict(self._used.version))
