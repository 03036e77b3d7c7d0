"""The figures of a run at the top of a page, and its warnings."""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.core.resources import total_of, used_of
from muster.model.markup import escape
from muster.model.quantity import display
from muster.sim.report.elements import shown
from muster.sim.result import Result

MAX_RESOURCES = 6


def summary(result: Result) -> str:
    """Returns the counts of pods, nodes and cycles, the usage of each resource, and the fragmentation."""
    counts = result.summary
    found: list[tuple[str, str, bool]] = [
        (f"{counts.bound:,}", "bound", False),
        (f"{counts.pending:,}", "waiting", counts.pending > 0),
        (f"{counts.evicted:,}", "evicted", False),
        (f"{counts.nodes:,}", "nodes", False),
        (f"{result.cycles:,}", "cycles" if counts.settled else "cycles, not settled", False),
    ]
    nodes = result.state.nodes
    offered, in_use = total_of(nodes), used_of(nodes)
    for name, total in offered.items():
        if name != "pods" and total > 0 and len(found) < 5 + MAX_RESOURCES:
            found.append((f"{display(name, in_use[name])} of {display(name, total)}", f"{name} in use", False))
    found += [(f"{share:.1%}", f"fragmentation of {name}", False) for name, share in counts.fragmentation.items()]
    if (gpus := counts.gpu_fragmentation) is not None:
        text = f"fragmented GPUs of {gpus.total:,} ({gpus.ratio:.1%} of the idle)"
        found.append((f"{gpus.amount:.2f}", text, False))
    return figures(found)


def figures(found: Iterable[tuple[str, str, bool]]) -> str:
    """Returns figures with what they count; the third value marks a figure that needs attention."""
    cells = (
        f'<div class="figure{" bad" * bad}"><dt>{shown(what)}</dt><dd>{escape(value)}{"<b> !</b>" * bad}</dd></div>'
        for value, what, bad in found
    )
    return f'<dl class="figures">{"".join(cells)}</dl>'


MAX_WARNINGS = 100


def warnings(result: Result) -> str:
    """Returns the warnings of the run, then the findings in the manifests and the configuration, errors first."""
    findings = sorted(result.findings, key=lambda finding: finding.severity != "error")
    return warning_list([*result.summary.warnings, *map(str, findings)])


def warning_count(result: Result) -> int:
    return len(result.summary.warnings) + len(result.findings)


def warning_list(lines: Iterable[str]) -> str:
    """Returns lines as a list of warnings, each once."""
    found = list(dict.fromkeys(lines))
    entries = "".join(f'<li class="warning">{shown(line, 1000)}</li>' for line in found[:MAX_WARNINGS])
    if len(found) > MAX_WARNINGS:
        entries += f'<li class="soft">and {len(found) - MAX_WARNINGS:,} more; stderr has all</li>'
    return f'<ul class="warnings">{entries}</ul>' if found else ""
