"""The explanation of a pod as HTML, from the keys of its JSON."""

from __future__ import annotations

from typing import Any

from builders.pages import checked
from muster.sim.report.explanation import rendered

BAD = "<script>"


def node(total: float, *reasons: tuple[str, str, str]) -> dict[str, Any]:
    refused = [{"plugin": p, "code": c, "text": t, "resolvable": True} for p, c, t in reasons]
    return {"feasible": not reasons, "reasons": refused, "scores": {"binpack": total, "idle": 0.0}, "total": total}


def plain(**more: Any) -> dict[str, Any]:
    refusals = {f"full-{i}": node(0, ("fit", "insufficient", f"Insufficient cpu ({i})")) for i in range(3)}
    return {
        "pod": f"d/{BAD}", "group": "d/g", "queue": "q", "decision": {"node": "n1", "pipelined": None, "reason": None},
        "warnings": [f"careful {BAD}"], "nodes": {"n2": node(1.5), "n1": node(90.0), **refusals}, **more,
    }  # fmt: skip


def test_the_best_node_comes_first_and_numbers_stand_in_the_cells() -> None:
    html = rendered(plain())
    checked(html)
    assert html.index('data-node="n1"') < html.index('data-node="n2"')
    assert '<td class="n heat8">90</td>' in html and '<td class="n heat0">1.5</td>' in html
    assert '<th scope="col">idle' not in html, "a plugin that scores every node 0 has no column"
    assert '<td class="n">3</td><td>Insufficient cpu (0)</td>' in html
    assert BAD not in html


def test_victims_protections_and_the_gang_are_shown() -> None:
    victim = {"pod": "d/v", "group": "d/low", "queue": "q", "priority": 1, "node": "n1"}
    kept = {"pod": "d/k", "group": "d/k", "rule": "budget", "plugin": "pdb", "text": "1 evicted > 0 allowed"}
    option: dict[str, Any] = {"where": "n1", "possible": True, "action": "preempt", "text": BAD}
    option |= {"victims": [victim], "protected": [kept]}
    failing = {"pod": "d/g-1", "role": "worker", "reason": "Insufficient cpu"}
    gang = {"name": "d/g", "minimum": 2, "pods": 3, "placed": 1, "failing": failing}
    terms = [{"plugin": "binpack", "term": None, "node": 90.0, "runner_up": 1.5, "difference": 88.5}]
    deciding = {"node": "n1", "runner_up": "n2", "difference": 88.5, "terms": terms}
    html = rendered(plain(evictions=[option], gang=gang, deciding=deciding, cycle=2, placed_before=7, notes=["a note"]))
    checked(html)
    for text in ("d/v", "1 evicted &gt; 0 allowed", "d/g-1", "role worker", "+88.5", "in cycle 2, after 7", "a note"):
        assert text in html
    assert BAD not in html
