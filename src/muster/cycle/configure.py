"""From the text of a configuration to a Config, checked against the plugins and actions there are."""

from __future__ import annotations

from muster.config import DEFAULT, DEFAULT_NAME, Config, Known, load
from muster.cycle.registry import ACTIONS, PLUGINS, known, third_party
from muster.model.finding import Finding


def configure(text: str, name: str) -> tuple[Config, list[Finding]]:
    """The configuration and what there is to say about it; with a finding of severity error it must not be used.

    The text is read twice: once to see which plugins it names, so that only those are imported, and once with their
    arguments known.
    """
    anything = Known({plugin: frozenset({"*"}) for plugin in (*PLUGINS, *third_party())}, dict(ACTIONS))
    first, _ = load(text, name, anything)
    return load(text, name, known(option.name for option in first.plugins()))


def default_configuration() -> Config:
    """The built-in configuration, for when none is given."""
    config, _ = configure(default_text(), DEFAULT_NAME)
    return config


def default_text() -> str:
    """The built-in configuration as a file, without what is not installed."""
    lines = DEFAULT.splitlines(keepends=True)
    return "".join(line for line in lines if "topology910" not in line or "topology910" in PLUGINS)
