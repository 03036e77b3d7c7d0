"""The figures of a run at the top of a page."""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.core.resources import exact_sum
from muster.model.markup import escape
from muster.model.quantity import display
from muster.sim.report.elements import shown
from muster.sim.result import Result

MAX_RESOURCES = 6


def render(result: Result) -> str:
    """Returns the counts of pods, nodes and cycles, the usage of each resource, and the fragmentation."""
    summary = result.summary
    found: list[tuple[str, str, bool]] = [
        (f"{summary.bound:,}", "bound", False),
        (f"{summary.pending:,}", "waiting", summary.pending > 0),
        (f"{summary.evicted:,}", "evicted", False),
        (f"{summary.nodes:,}", "nodes", False),
        (f"{result.cycles:,}", "cycles" if summary.settled else "cycles, not settled", False),
    ]
    nodes = result.state.nodes
    for name, row in list(result.state.axis.rows.items()):
        total = exact_sum(nodes.alloc[row])
        if name != "pods" and total > 0 and len(found) < 5 + MAX_RESOURCES:
            used = exact_sum(nodes.used[row])
            found.append((f"{display(name, used)} of {display(name, total)}", f"{name} in use", False))
    found += [(f"{share:.1%}", f"fragmentation of {name}", False) for name, share in summary.fragmentation.items()]
    if (gpus := summary.gpu_fragmentation) is not None:
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
