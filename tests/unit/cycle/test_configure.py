"""Configurations checked against the installed plugins."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders.files import PREEMPTING
from muster.config import DEFAULT
from muster.config.types import PluginOption
from muster.cycle import registry
from muster.cycle.configure import configure, default_configuration, has_opinion
from muster.engine.core.hooks import Plugin, Preemptable, TaskOrder
from muster.engine.core.jobs import Task
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


def test_the_default_configuration_is_whole() -> None:
    config = default_configuration()
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert "topology910" in [option.name for option in config.plugins()]


def test_arguments_are_checked_against_their_plugin() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.wieght: 1}\n"
    _, findings = configure(text, "s.yaml")
    assert [(f.code, f.line, f.fix) for f in findings] == [("unknown-argument", 5, "did you mean binpack.weight?")]


class Alphabetical(Plugin, TaskOrder):
    """A plugin of another package."""

    name = "alphabetical"
    arguments = {"reverse": "from z to a (false)"}

    def task_key(self, task: object) -> float:
        return 0.0


def test_a_plugin_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "third_party", lambda: {"alphabetical": Alphabetical})
    monkeypatch.setattr("muster.cycle.configure.third_party", lambda: {"alphabetical": Alphabetical})
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: alphabetical\n    arguments: {revers: 1}\n"
    config, findings = configure(text, "s.yaml")
    assert [option.name for option in config.plugins()] == ["alphabetical"]
    assert [f.fix for f in findings] == ["did you mean reverse?"]


def findings(text: str) -> list[Finding]:
    return validate_configuration(text, "scheduler.yaml")[1]


def found(text: str, code: str) -> Finding:
    return next(finding for finding in findings(text) if finding.code == code)


@pytest.mark.parametrize("tier", ["", "- plugins:\n"], ids=["one tier", "two tiers"])
def test_no_arrangement_of_tiers_is_recommended(tier: str) -> None:
    """Protections hold in every tier, so it does not matter in which one proportion is."""
    assert findings(USUAL.replace("- plugins:\n  - name: predicates", f"{tier}  - name: predicates")) == []


EVICTING = 'actions: "enqueue, allocate, {action}, backfill"\ntiers:\n- plugins:\n  - name: predicates\n'


@pytest.mark.parametrize(
    ("action", "plugins", "evicts"),
    [
        ("preempt", "  - name: conformance\n  - name: pdb\n", False),
        ("preempt", "  - name: proportion\n", False),
        ("preempt", "  - name: priority\n", True),
        ("preempt", "  - name: drf\n", True),
        ("preempt", "  - name: priority\n    enablePreemptable: false\n", False),
        ("preempt", "  - name: priority\n    enablePreemptable: false\n  - name: drf\n", True),
        ("reclaim", "  - name: priority\n  - name: drf\n", False),
        ("reclaim", "  - name: drf\n    enableHierarchy: true\n", True),
        ("reclaim", "  - name: proportion\n", True),
        ("reclaim", "  - name: capacity\n    enableReclaimable: false\n", False),
    ],
)
def test_an_action_that_can_never_evict_is_found(action: str, plugins: str, evicts: bool) -> None:
    codes = [finding.code for finding in findings(EVICTING.replace("{action}", action) + plugins)]
    assert ("no-victims" not in codes) is evicts


def test_what_volcanos_rules_permit_is_a_warning_at_the_key() -> None:
    finding = found(f"compatibility: volcano\n{USUAL}", "compatibility-volcano")
    assert (finding.severity, finding.line, finding.object) == ("warning", 1, "compatibility")
    for permitted in ("by Volcano's rules reclaim may", "gangs below", "equal or higher", "PodDisruptionBudgets"):
        assert permitted in finding.message


@pytest.mark.parametrize("text", [USUAL, "compatibility: volcano\n" + USUAL.replace("reclaim, ", "")])
def test_volcanos_rules_are_no_matter_without_the_key_or_without_evictions(text: str) -> None:
    assert "compatibility-volcano" not in [finding.code for finding in findings(text)]


def test_a_plugin_of_another_package_may_name_victims() -> None:
    class Stranger(Plugin, Preemptable):
        name = "stranger"

        def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None:
            return None

    option = PluginOption("stranger")
    plugin = Stranger(option.arguments, option)
    assert has_opinion("preempt", plugin, option)
    assert not has_opinion("preempt", plugin, PluginOption("stranger", {"enablePreemptable": False}))
    assert not has_opinion("reclaim", plugin, option)


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
    ],
)
def test_oddities_are_found_at_their_line(change: tuple[str, str], code: str, line: int) -> None:
    text = USUAL.replace(*change)
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
