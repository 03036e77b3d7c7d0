"""Configurations: what is found is checked first, and the last good one stays in use.

Contents are compared, not times: a ConfigMap's volume changes by a symbolic link, an object by many things beside.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.config import DEFAULT, DEFAULT_NAME
from muster.cycle.scheduler import Scheduler
from muster.cycle.validation import effective_hash, validate_configuration
from muster.model.finding import Finding
from muster.process.logs import Log
from muster.scheduler.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Loaded:
    scheduler: Scheduler
    version: str  # names the content, in every decision's log
    hash: str = ""  # of the effective configuration
    findings: tuple[Finding, ...] = ()


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
    """The version that is used, what there is to say about it, and why the one found last is not used."""

    used: str
    refused: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, loaded: Loaded, refused: str = "") -> Verdict:
        """Notices are in the log only."""
        warnings = tuple(str(one) for one in loaded.findings if one.severity != "notice")
        return cls(loaded.version, refused, warnings)


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
    return _validated(decoded(found), found.where, found.version)


def decoded(found: Found) -> str:
    """The text that was found."""
    if found.fault:
        raise Unusable(f"{found.where}: error: {found.fault}")
    try:
        return found.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable(f"{found.where}: error: is not UTF-8 text (save it as UTF-8)") from None


def read(path: str | None) -> Loaded:
    """The configuration of the file, or the built-in one."""
    return _validated(DEFAULT, DEFAULT_NAME, "built-in") if path is None else checked(find(path))


def _validated(text: str, name: str, version: str) -> Loaded:
    scheduler, findings = validate_configuration(text, name)
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise Unusable("\n".join(errors))
    return Loaded(scheduler, version, effective_hash(scheduler), tuple(findings))


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
            self._tell(Verdict.of(self._used, str(why)))
            return
        self._used = loaded
        self._metrics.reloads.labels("used").inc()
        self._log(0, "configuration changed", version=loaded.version)
        self._use(loaded)
        self._good()

    def _good(self) -> None:
        self._refused = ""
        self._metrics.config_good.set(1)
        self._tell(Verdict.of(self._used))
