"""Loads the text of a configuration into a Config, checked against the plugins and actions that exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muster.config import DEFAULT, DEFAULT_NAME, Config, Known, load
from muster.cycle.registry import ACTIONS, PLUGINS, broken, known, third_party
from muster.model.finding import Finding


def configure(text: str, name: str) -> tuple[Config, list[Finding]]:
    """Returns the configuration and its findings; with a finding of severity error it must not be used.

    The text is read twice: first to find the plugins that it names, so that only those are imported, and then
    with their arguments known.
    """
    first, findings = load(text, name, _any_arguments(PLUGINS))
    others: Iterable[str] = ()
    if any(finding.code == "unknown-plugin" for finding in findings):
        others = third_party()
        first, _ = load(text, name, _any_arguments([*PLUGINS, *others]))
    config, findings = load(text, name, known([*(option.name for option in first.plugins()), *others]))
    return config, [_with_cause(finding) for finding in findings]


def _with_cause(finding: Finding) -> Finding:
    """Replaces the finding of an unknown plugin by the cause, if the plugin is installed but cannot be loaded."""
    why = broken().get(finding.object.removeprefix("plugin ")) if finding.code == "unknown-plugin" else None
    if why is None:
        return finding
    fix = "correct or remove the package that provides it, or remove the plugin from the configuration"
    return replace(finding, code="broken-plugin", message=why, fix=fix)


def _any_arguments(plugins: Iterable[str]) -> Known:
    return Known({plugin: frozenset({"*"}) for plugin in plugins}, dict(ACTIONS))


def default_configuration() -> Config:
    """Returns the built-in configuration, which is used if none is given."""
    config, _ = configure(DEFAULT, DEFAULT_NAME)
    return config
