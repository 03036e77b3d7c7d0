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
    config, findings = load(text, name, known(option.name for option in first.plugins() if _there(option.name)))
    return _only_there(config), findings


def default_configuration() -> Config:
    """The built-in configuration, for when none is given."""
    config, _ = configure(default_text(), DEFAULT_NAME)
    return config


def default_text() -> str:
    """The built-in configuration as a file, without what is not installed."""
    lines = DEFAULT.splitlines(keepends=True)
    return "".join(line for line in lines if "topology910" not in line or "topology910" in PLUGINS)


def _there(name: str) -> bool:  # provisional, while plugins are being written
    from importlib.util import find_spec

    spec = find_spec(PLUGINS[name].partition(":")[0]) if name in PLUGINS else None
    return name not in PLUGINS or (spec is not None and spec.origin is not None)


def _only_there(config: Config) -> Config:
    from dataclasses import replace
    from importlib.util import find_spec

    tiers = tuple(replace(tier, plugins=tuple(p for p in tier.plugins if _there(p.name))) for tier in config.tiers)
    actions = tuple(a for a in config.actions if find_spec(f"muster.actions.{a}"))
    return replace(config, tiers=tiers, actions=actions)
