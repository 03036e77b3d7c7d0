"""Plugins of other packages, as they are registered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from muster.cycle import registry
from muster.cycle.configure import configure
from muster.engine.core.hooks import JobOrder, NodeFilter, Plugin
from muster.model.custom import CustomResource

HERE = "unit_plugins_of_another_package"


class Sound(Plugin):
    name = "sound"


class Abstract(Plugin, JobOrder, NodeFilter):
    name = "abstract"


class Nameless(Plugin):
    pass


class Misnamed(Plugin):
    name = "other"


class Unserved(CustomResource, kw_only=True):
    group = "example.com"


class Reading(Plugin):
    name = "reading"
    reads = (Unserved,)


class Reader(Plugin):
    name = "reader"
    reads = (str,)  # type: ignore[assignment]


class Package:
    """A distribution as importlib.metadata knows it."""

    def __init__(self, name: str) -> None:
        self.name, self.version = name, "1.0"


def point(name: str, value: str, package: str = "acme-plugins") -> EntryPoint:
    made = EntryPoint(name, f"{HERE}:{value}" if ":" not in value else value, "muster.plugins")
    vars(made)["dist"] = Package(package)
    return made


POINTS = [
    point("sound", "Sound"), point("gang", "Sound"), point("missing", "unit_module_that_is_not_there:Plugin"),
    point("number", "sys:maxsize"), point("abstract", "Abstract"), point("nameless", "Nameless"),
    point("misnamed", "Misnamed"), point("twice", "Sound"), point("twice", "Sound", "zeta"),
    point("reading", "Reading"), point("reader", "Reader"),
]  # fmt: skip


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])
    monkeypatch.setattr(registry, "_entry_points", lambda: POINTS)
    registry._registered.cache_clear()
    yield
    registry._registered.cache_clear()


def configuration(plugin: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: {plugin}\n"


@pytest.mark.usefixtures("registered")
def test_one_that_cannot_be_loaded_does_not_take_the_others_along() -> None:
    assert list(registry.third_party()) == ["sound"]
    assert registry.package_of("sound") == "acme-plugins 1.0" and registry.package_of("gang") == "muster"
    assert registry.plugin_class("gang").name == "gang"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("missing", ":Plugin of package acme-plugins 1.0 cannot be imported: ModuleNotFoundError"),
        ("number", "sys:maxsize of package acme-plugins 1.0 is not a class derived from muster.plugin.Plugin"),
        ("abstract", "of package acme-plugins 1.0 is abstract: it does not implement filter, job_key"),
        ("nameless", 'of package acme-plugins 1.0 has no name: write name = "nameless" in the class'),
        ("misnamed", "of package acme-plugins 1.0 is named other but registered as misnamed"),
        ("twice", "several packages register a plugin with this name: acme-plugins 1.0 and zeta 1.0"),
        ("reading", "reads Unserved.example.com, which does not declare where it is served"),
        ("reader", "reads str, which is not a Kubernetes kind"),
    ],
)
def test_a_configuration_that_names_it_gets_the_reason(plugin: str, why: str) -> None:
    _, findings = configure(configuration(plugin), "s.yaml")
    assert [(f.severity, f.code, f.line, f.object) for f in findings] == [
        ("error", "broken-plugin", 4, f"plugin {plugin}")
    ]
    assert why in findings[0].message


@pytest.mark.usefixtures("registered")
def test_the_name_of_a_built_in_plugin_cannot_be_taken_over() -> None:
    text = "package acme-plugins 1.0 registers a plugin with the name of a built-in one, which is used"
    assert registry.broken()["gang"] == text


@pytest.mark.usefixtures("registered")
def test_a_name_that_is_not_registered_is_unknown() -> None:
    _, findings = configure(configuration("sond"), "s.yaml")
    assert [(f.code, f.fix) for f in findings] == [("unknown-plugin", "did you mean sound?")]
