"""The warnings of a run, and the findings in its input."""

from __future__ import annotations

from collections.abc import Iterable

from muster.sim.report.elements import shown
from muster.sim.result import Result

MAX_WARNINGS = 100


def render(result: Result) -> str:
    """Returns the warnings of the run, then the findings in the manifests and the configuration, errors first."""
    findings = sorted(result.findings, key=lambda finding: finding.severity != "error")
    return warning_list([*result.summary.warnings, *map(str, findings)])


def count(result: Result) -> int:
    return len(result.summary.warnings) + len(result.findings)


def warning_list(lines: Iterable[str]) -> str:
    """Returns lines as a list of warnings, each once."""
    found = list(dict.fromkeys(lines))
    entries = "".join(f'<li class="warning">{shown(line, 1000)}</li>' for line in found[:MAX_WARNINGS])
    if len(found) > MAX_WARNINGS:
        entries += f'<li class="soft">and {len(found) - MAX_WARNINGS:,} more; stderr has all</li>'
    return f'<ul class="warnings">{entries}</ul>' if found else ""
