"""Warnings about gangs below their minimum and violated budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.files import manifests, scheduler
from muster.sim.simulate import simulate

CASES = Path(__file__).parents[2] / "cases" / "evictions"
GANG = "by-volcanos-rules-a-gang-is-left-below-its-minimum"
BUDGET = "by-volcanos-rules-a-budget-does-not-count-without-pdb"


def played(case: str, change: dict[str, Any] | None = None, volcano: bool = True) -> list[str]:
    """The warnings of a case; `change` is merged into the spec of one object."""
    documents = list(yaml.load_all((CASES / case / "cluster.yaml").read_text("utf-8"), yaml.CSafeLoader))
    for document in documents:
        if change and document["kind"] == change["kind"] and document["metadata"]["name"] == change["name"]:
            document["spec"].update(change["spec"])
    text = (CASES / case / "scheduler.yaml").read_text("utf-8")
    found = manifests(*documents)
    configuration = text if volcano else text.replace("compatibility: volcano\n", "")
    return simulate(scheduler(configuration), found.objects, found.latest, ("muster",)).summary.warnings


@pytest.mark.parametrize("case", [GANG, BUDGET])
def test_a_breach_is_a_warning_by_volcanos_rules_only(case: str) -> None:
    assert len(played(case)) == 1
    assert played(case, volcano=False) == []


def test_a_gang_that_keeps_its_minimum_is_no_breach() -> None:
    assert played(GANG, {"kind": "PodGroup", "name": "strict", "spec": {"minMember": 1}}) == []


def test_a_gang_that_never_had_its_minimum_is_no_breach() -> None:
    assert played(GANG, {"kind": "PodGroup", "name": "strict", "spec": {"minMember": 3}}) == []


def test_a_budget_that_allows_the_eviction_is_no_breach() -> None:
    assert played(BUDGET, {"kind": "PodDisruptionBudget", "name": "web", "spec": {"minAvailable": 1}}) == []
