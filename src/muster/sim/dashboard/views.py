"""The views of the page: HTML fragments, made by the components of the static reports."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from muster.sim import html
from muster.sim.explain import Explanation
from muster.sim.result import Comparison, Result


def _waiting(result: Result) -> str:
    rows = [(pod, reason) for pod, reason in sorted(result.pending.items())[:200]]
    buttons = "".join(
        f'<tr><td><button data-pod="{escape(pod)}">{escape(pod)}</button></td><td>{escape(reason)}</td></tr>'
        for pod, reason in rows
    )
    return f"<table><tr><th>pod</th><th>reason</th></tr>{buttons}</table>"


def _queues(result: Result) -> str:
    shares = result.summary.queues.items()
    return html.table(("queue", "allocated"), [(name, str(share.to_dict()["allocated"])) for name, share in shares])


def _nodes(result: Result) -> str:
    return html.table(("node",), [(name,) for name in result.state.nodes.names])


def _timeline(result: Result) -> str:
    return html.table(("cycle", "binds"), [(str(one.number), str(len(one.binds))) for one in result.history])


VIEWS: dict[str, Callable[[Result], str]] = {
    "waiting": _waiting,
    "queues": _queues,
    "nodes": _nodes,
    "timeline": _timeline,
}
"""Name of the view → how it is rendered."""


def explanation(explained: Explanation) -> str:
    rows = [(name, str(trace.feasible), str(trace.total)) for name, trace in explained.nodes.items()]
    return html.table(("node", "feasible", "total"), rows)


def comparison(compared: Comparison) -> str:
    rows = [(pod, a or "–", b or "–") for pod, (a, b) in compared.placements.items()]
    return html.table(("pod", *compared.names), rows)
