"""Plugins of other packages, as they are registered."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from muster.cycle import registry
from muster.cycle.configure import configure

HERE = "unit_plugin_that_is_not_there:Plugin"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint("sound", "muster.plugins.priority:Priority", "muster.plugins"),
        EntryPoint("gang", "muster.plugins.priority:Priority", "muster.plugins"),
        EntryPoint("missing", HERE, "muster.plugins"),
        EntryPoint("number", "sys:maxsize", "muster.plugins"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry._registered.cache_clear()
    yield
    registry._registered.cache_clear()


def configuration(plugin: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: {plugin}\n"


@pytest.mark.usefixtures("registered")
def test_one_that_cannot_be_loaded_does_not_take_the_others_along() -> None:
    assert list(registry.third_party()) == ["sound"]
    assert list(registry.broken()) == ["missing", "number"]
    assert registry.plugin_class("gang").name == "gang"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(("plugin", "why"), [("missing", "cannot be imported"), ("number", "is not a class")])
def test_a_configuration_that_names_it_is_told_why(plugin: str, why: str) -> None:
    _, findings = configure(configuration(plugin), "s.yaml")
    assert [(f.severity, f.code, f.line, f.object) for f in findings] == [
        ("error", "broken-plugin", 4, f"plugin {plugin}")
    ]
    assert why in findings[0].message


@pytest.mark.usefixtures("registered")
def test_a_name_nobody_registered_is_unknown() -> None:
    _, findings = configure(configuration("sond"), "s.yaml")
    assert [(f.code, f.fix) for f in findings] == [("unknown-plugin", "did you mean sound?")]
