"""Configurations checked against the installed plugins."""

from __future__ import annotations

import pytest

from muster.cycle import registry
from muster.cycle.configure import configure, default_configuration
from muster.engine.core.hooks import Plugin, TaskOrder


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
