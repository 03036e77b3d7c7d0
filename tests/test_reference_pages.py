"""The reference pages list everything that the sources use."""

from __future__ import annotations

import pytest

from muster.cli import VERBS
from reference_pages import events, exit_codes, json_answers, labels, metrics, sources


def test_every_label_and_annotation_of_the_sources_is_listed() -> None:
    unlisted, unused = labels.differences(sources.keys(), sources.literals())
    assert unlisted == set(), "add them to tests/reference_pages/labels.yaml"
    assert unused == set(), "remove them from tests/reference_pages/labels.yaml"


def test_every_reason_of_an_event_is_recorded_somewhere() -> None:
    assert events.unused() == []


def test_every_metric_of_the_sources_is_listed() -> None:
    assert metrics.missing() == []


def test_the_commands_that_end_with_code_1_are_listed() -> None:
    assert exit_codes.verbs_that_fail() == exit_codes.FAILED.keys()


ANSWERS = json_answers.known()["answers"]


@pytest.mark.parametrize("command", [command for command, answer in ANSWERS.items() if answer["runs"]])
def test_every_key_of_an_answer_is_described(command: str) -> None:
    answer = ANSWERS[command]
    found = [json_answers.undescribed(run, answer["keys"]) for run in answer["runs"]]
    assert set().union(*found) == set(), "add them to tests/reference_pages/json.yaml"


def test_every_command_with_json_is_described() -> None:
    described = {verb for verb in VERBS if any(f"muster {verb}" in name for name in ANSWERS)}
    services = {"scheduler", "pod-groups", "webhook", "extender", "edge-gate", "dashboard"}
    assert VERBS.keys() - described == services
