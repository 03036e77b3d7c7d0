"""What a configuration silently does."""

from __future__ import annotations

import pytest

from front_door import PREEMPTING
from muster.config import DEFAULT
from muster.model.finding import Finding
from muster.sim.validate import effective, validate_configuration

USUAL = """\
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def findings(text: str) -> list[Finding]:
    return validate_configuration(text, "scheduler.yaml")[1]


def found(text: str, code: str) -> Finding:
    return next(finding for finding in findings(text) if finding.code == code)


def test_reclaimable_in_the_second_tier_is_said_to_be_never_asked() -> None:
    finding = found(USUAL, "never-asked")
    assert (finding.severity, finding.object, finding.line) == ("warning", "plugin proportion", 8)
    assert "reclaimable in tier 2 is never asked where gang and conformance in tier 1" in finding.message


def test_in_the_same_tier_it_is_asked() -> None:
    one_tier = USUAL.replace("- plugins:\n  - name: predicates", "  - name: predicates")
    assert [f.code for f in findings(one_tier)] == []


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        (("enqueue, allocate, reclaim, backfill", "enqueue, allocate, allocate, backfill"), "action-twice", 1),
        (("enqueue, allocate, reclaim, backfill", "allocate, backfill"), "no-enqueue", 1),
        (("enqueue, allocate, reclaim, backfill", "allocate, enqueue"), "action-order", 1),
        (("enqueue, allocate, reclaim, backfill", "enqueue, reclaim"), "no-allocate", 1),
        (("enqueue, allocate, reclaim, backfill", "enqueue, allocate"), "no-backfill", 1),
        (("  - name: predicates\n", ""), "no-predicates", 1),
        (("  - name: gang\n", ""), "no-gang", 1),
        (("  - name: proportion\n", "  - name: proportion\n  - name: capacity\n"), "two-quotas", 9),
        (("name: gang\n", "name: gang\n    enablePredicate: true\n"), "idle-switch", 4),
        (("name: nodeorder\n", "name: nodeorder\n    arguments: {leastrequested.weight: 0}\n"), "weight-zero", 10),
        (("name: nodeorder\n", "name: nodeorder\n    enableNodeOrder: false\n"), "no-scores", 9),
        (("name: gang\n  - name: conformance\n", "name: priority\n"), "no-victims", 1),
    ],
)
def test_oddities_are_found_at_their_line(change: tuple[str, str], code: str, line: int) -> None:
    text = USUAL.replace(*change)
    if code == "no-victims":
        text = text.replace("  - name: proportion\n", "")
    finding = found(text, code)
    assert (finding.file, finding.line) == ("scheduler.yaml", line)


def test_what_only_speaks_in_enqueue_is_idle_without_it() -> None:
    text = USUAL.replace("enqueue, ", "").replace("- name: proportion", "- name: overcommit")
    assert found(text, "never-asked").object == "plugin overcommit"


def test_the_default_configuration_has_no_warning() -> None:
    assert [f for f in findings(DEFAULT) if f.severity != "notice"] == []


def test_a_configuration_with_errors_is_not_remarked_on() -> None:
    assert [f.code for f in findings(USUAL.replace("gang", "gagn"))] == ["unknown-plugin"]


def test_the_effective_configuration_has_what_the_plugins_understood() -> None:
    text = PREEMPTING + "    arguments:\n      leastrequested.weight: 3\n"
    scheduler, _ = validate_configuration(text, "scheduler.yaml")
    plain = effective(scheduler)
    assert plain["actions"] == "enqueue, allocate, preempt, backfill"
    assert plain["tiers"][1]["plugins"][1] == {"name": "nodeorder", "arguments": {"leastrequested.weight": 3}}
