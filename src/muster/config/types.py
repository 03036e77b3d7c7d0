"""The types of a configuration: actions in their order, tiers of plugins with their switches and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.config.arguments import Arguments
from muster.model.finding import Finding
from muster.model.yamltext import dump

__all__ = ["COMPATIBILITIES", "OFF_BY_DEFAULT", "SWITCHES", "Arguments", "Config", "Known", "PluginOption", "Tier"]


# Volcano: some keys begin with `enable`, some with `enabled`; files use both, so the spelling is kept.
SWITCHES: tuple[str, ...] = (
    "enableJobOrder",
    "enableHierarchy",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enabledClusterOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobEnqueued",
    "enabledVictim",
    "enableJobStarving",
    "enabledOverused",
    "enabledAllocatable",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)
# Volcano: every absent switch is on, except these two.
OFF_BY_DEFAULT = frozenset({"enableHierarchy", "enabledClusterOrder"})
COMPATIBILITIES = ("volcano",)
"""The values of the key ``compatibility``."""


@dataclass(frozen=True)
class Known:
    """The names a configuration may use: each plugin and action with its arguments.

    An argument is an exact name, or a prefix that ends in ``*``. A nested mapping is compared by path: ``sra.weight``
    is the flat argument of that name and ``weight`` under ``sra``. Keys of a mapping are checked if names of them are
    known.
    """

    plugins: dict[str, frozenset[str]] = field(default_factory=dict)
    actions: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PluginOption:
    """A plugin in its tier: the switches as given, the arguments, the line of its name."""

    name: str
    switches: dict[str, bool] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=Arguments)
    line: int | None = None

    def enabled(self, switch: str) -> bool:
        """Returns whether a switch is on, as given or by default."""
        return self.switches.get(switch, switch not in OFF_BY_DEFAULT)


@dataclass(frozen=True)
class Tier:
    """Plugins that decide together, before the tiers below them."""

    plugins: tuple[PluginOption, ...] = ()


@dataclass(frozen=True)
class Config:
    """A scheduler's configuration."""

    actions: tuple[str, ...] = ()
    tiers: tuple[Tier, ...] = ()
    configurations: dict[str, Arguments] = field(default_factory=dict)
    compatibility: str = ""
    """Whose eviction rules apply: muster's (empty) or those of one of ``COMPATIBILITIES``."""

    def plugins(self) -> Iterator[PluginOption]:
        """Yields all plugins, tier by tier."""
        for tier in self.tiers:
            yield from tier.plugins

    def plugin(self, name: str) -> PluginOption | None:
        """Returns the plugin of that name, if it is configured."""
        return next((option for option in self.plugins() if option.name == name), None)

    def findings(self) -> list[Finding]:
        """Returns the findings about arguments so far: complete once plugins and actions have read theirs."""
        owners = [*(option.arguments for option in self.plugins()), *self.configurations.values()]
        return [finding for arguments in owners for finding in arguments.findings]


def render(config: Config) -> dict[str, Any]:
    """Returns plain values that, written as YAML, load as the same configuration."""
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
    """Returns the configuration as YAML, as ``validate --effective`` prints it."""
    return dump(render(config))


def _plugin(option: PluginOption) -> dict[str, Any]:
    plugin: dict[str, Any] = {"name": option.name, **dict(sorted(option.switches.items()))}
    if option.arguments:
        plugin["arguments"] = dict(option.arguments)
    return plugin
