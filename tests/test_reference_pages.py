"""The reference pages list everything that the sources use."""

from __future__ import annotations

from reference_pages import events, exit_codes, labels, metrics, sources


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
