"""The configuration as understood, in the format it came in: what ``validate --effective`` prints."""

from __future__ import annotations

from typing import Any

from muster.config.types import Config, PluginOption
from muster.model.yamlwrite import dump

__all__ = ["render", "render_text"]


def render(config: Config) -> dict[str, Any]:
    """Plain values that, written as YAML, load as the same configuration."""
    understood: dict[str, Any] = {
        "actions": ", ".join(config.actions),
        "tiers": [{"plugins": [_plugin(option) for option in tier.plugins]} for tier in config.tiers],
    }
    if config.compatibility:
        understood["compatibility"] = config.compatibility
    if config.configurations:
        understood["configurations"] = [
            {"name": name, "arguments": dict(arguments)} for name, arguments in sorted(config.configurations.items())
        ]
    return understood


def render_text(config: Config) -> str:
    """The same as YAML."""
    return dump(render(config))


def _plugin(option: PluginOption) -> dict[str, Any]:
    plugin: dict[str, Any] = {"name": option.name, **dict(sorted(option.switches.items()))}
    if option.arguments:
        plugin["arguments"] = dict(option.arguments)
    return plugin
