"""The table of `muster validate`: one block per finding, the place first, as editors understand it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from muster.cli.tables.parts import plural
from muster.model.finding import Finding

STYLES = {"error": "bold red", "warning": "yellow", "notice": "cyan"}


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    for finding in findings:
        line = Text()
        if finding.place:
            line.append(f"{finding.place}: ", "bold")
        line.append(f"{finding.severity}: ", STYLES[finding.severity])
        if finding.object:
            line.append(f"{finding.object}: ")
        line.append(finding.message)
        line.append(f" [{finding.code}]", "dim")
        console.print(line)
        if finding.fix:
            console.print(Text(f"    → {finding.fix}", "dim"))
    counts = {severity: sum(1 for f in findings if f.severity == severity) for severity in STYLES}
    said = ", ".join(plural(n, severity) for severity, n in counts.items() if n)
    console.print(Text(said or "no findings", "bold"))
