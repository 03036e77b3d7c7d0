"""Findings about the input: severity, place, message and fix; and the error that has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Finding", "InputError", "Severity", "in_order"]

Severity = Literal["error", "warning", "notice"]
_GRAVITY: dict[Severity, int] = {"error": 0, "warning": 1, "notice": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. ``object`` names what it is about (``Pod ns/name``, ``plugin binpack``), ``code`` is stable."""

    severity: Severity
    file: str
    line: int | None
    object: str
    code: str
    message: str
    fix: str = ""

    @property
    def place(self) -> str:
        """``file:line``, as editors understand it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        about = f"{self.object}: " if self.object else ""
        todo = f" ({self.fix})" if self.fix else ""
        return f"{self.place}: {self.severity}: {about}{self.message}{todo}"

    def to_dict(self) -> dict[str, str | int | None]:
        """The keys of ``muster validate -o json``."""
        return asdict(self)


class InputError(ValueError):
    """Raised for unusable input. ``message`` is the reason in one line, ``findings`` have the places and the fixes."""

    def __init__(self, message: str, findings: Iterable[Finding] = ()) -> None:
        self.message = message
        self.findings = tuple(findings)
        errors = [str(finding) for finding in self.findings if finding.severity == "error"]
        super().__init__("\n".join([message, *errors]))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sorts findings by file, line and severity and drops duplicates: the order of discovery does not matter."""
    return sorted(
        dict.fromkeys(findings),
        key=lambda f: (f.file, f.line or 0, _GRAVITY[f.severity], f.object, f.code, f.message, f.fix),
    )
