"""Findings are logged when they appear and every ten minutes while they hold, and counted by severity and code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.manifests import state_of
from builders.scheduler_objects import EVICTS
from builders.small_cluster import pod_group
from muster.cycle.configure import configure
from muster.model.finding import Finding
from muster.process.config_sources import ConfigContent
from muster.process.config_watcher import ConfigStatus
from muster.process.logs import Log
from muster.scheduler.configuration import (
    LONGEST_PAUSE_S,
    REPEAT_S,
    ConfigurationFindings,
    UnmetRequirements,
    load_config,
    read_config,
)
from muster.scheduler.metrics import Metrics

ONE = Finding("warning", "a.yaml", 3, "plugin tdm", "foreign-plugin", "muster does not have tdm", "remove it")
OTHER = replace(ONE, object="plugin usage", message="muster does not have usage")


class Lines(Log):
    def __init__(self) -> None:
        super().__init__(0)
        self.seen: list[tuple[int, str, dict[str, object]]] = []

    def __call__(self, level: int, message: object, **fields: object) -> None:
        self.seen.append((level, str(message), fields))


def test_a_finding_is_logged_at_level_0_and_again_after_ten_minutes() -> None:
    lines, metrics, now = Lines(), Metrics(), 0.0
    log = ConfigurationFindings(metrics, lines, lambda: now)
    log.update({1: ONE})
    now = REPEAT_S - 1
    log.update({1: ONE, 2: OTHER})
    assert [message for _, message, _ in lines.seen] == [
        "configuration finding: plugin tdm: muster does not have tdm",
        "configuration finding: plugin usage: muster does not have usage",
    ]  # fmt: skip
    assert lines.seen[0][0] == 0 and lines.seen[0][2] == {
        "severity": "warning", "code": "foreign-plugin", "place": "a.yaml:3", "fix": "remove it"
    }  # fmt: skip
    now = REPEAT_S
    log.update({1: ONE, 2: OTHER})
    assert len(lines.seen) == 3


def test_a_requirement_of_more_and_more_objects_is_one_finding() -> None:
    lines, metrics, now = Lines(), Metrics(), 0.0
    config = configure("actions: allocate\ntiers: [{plugins: [{name: predicates}]}]\n", "x")[0]
    unmet = UnmetRequirements(metrics, lines, lambda: now)
    for count in (1, 2, 3):
        unmet.check(config, state_of(*(pod_group(f"g{i}", members=3) for i in range(count))))
    ((level, message, fields),) = lines.seen
    assert level == 0 and fields["code"] == "no-plugin"
    assert message.startswith("unmet requirement: PodGroup d/g0: has a minMember above 1, but the plugin gang is not")
    labels = {"severity": "notice", "code": "no-plugin"}
    assert metrics.registry.get_sample_value("muster_unmet_requirements", labels) == 1


def test_a_cycle_that_skips_the_search_requests_another() -> None:
    # For the clock of the log, too.
    times = iter([0.0, 0.5, 1.0, 1.5, 11.5, 11.6, 11.7])  # the first look takes a second
    config = configure("actions: allocate\ntiers: [{plugins: [{name: predicates}]}]\n", "x")[0]
    lines = Lines()
    unmet = UnmetRequirements(Metrics(), lines, lambda: next(times))
    unmet.check(config, state_of())
    assert unmet.due is None
    unmet.check(config, state_of(pod_group("g", members=3)))
    assert unmet.due == 1.0 + LONGEST_PAUSE_S and lines.seen == []
    unmet.check(config, state_of(pod_group("g", members=3)))
    assert unmet.due is None and len(lines.seen) == 1


def test_a_finding_that_has_disappeared_is_not_counted() -> None:
    metrics = Metrics()
    log, labels = ConfigurationFindings(metrics, Lines()), {"severity": "warning", "code": "foreign-plugin"}
    log.update({1: ONE, 2: OTHER})
    assert metrics.registry.get_sample_value("muster_configuration_findings", labels) == 2
    log.update({})
    assert metrics.registry.get_sample_value("muster_configuration_findings", labels) is None


def test_a_loaded_configuration_has_all_that_validate_says() -> None:
    text = EVICTS.replace("{name: drf}", "{name: drf}, {name: tdm}").replace("allocate", "allocate, allocate", 1)
    loaded = load_config(ConfigContent("a.yaml", text.encode()))
    assert {"foreign-plugin", "action-twice"} <= {one.code for one in loaded.findings}
    verdict = ConfigStatus.of(loaded)
    assert any("muster does not have tdm" in one for one in verdict.warnings)
    assert read_config(None).findings == ()


@pytest.mark.parametrize(
    ("change", "same"),
    [(lambda text: text + "# a comment\n", True), (lambda text: text.replace("preempt", "backfill"), False)],
)
def test_the_hash_is_of_what_is_understood(change: object, same: bool) -> None:
    assert callable(change)
    one, other = (load_config(ConfigContent("a.yaml", text.encode())) for text in (EVICTS, change(EVICTS)))
    assert (one.hash == other.hash) is same and one.version != other.version
