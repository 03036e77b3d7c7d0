"""docs/reference/configuration-keys.md: all keys of the configuration file, from the loader and the registry."""

from __future__ import annotations

from muster.cli.plugins import first_sentence, matrix
from muster.config.types import COMPATIBILITIES, OFF_BY_DEFAULT, SWITCHES
from muster.cycle.registry import ACTIONS, PLUGINS, action, extension_points
from reference_pages.tables import paragraph, table

KEYS = {
    "actions": "The actions of a cycle in their order, separated by commas. Default: the built-in ones.",
    "tiers": "A list of tiers. Each has the key `plugins`: a list of plugins that decide together.",
    "tiers[].plugins[].name": "The name of the plugin.",
    "tiers[].plugins[].SWITCH": "`true` or `false`: an extension point of the plugin is used or not; see below.",
    "tiers[].plugins[].arguments": "The arguments of the plugin; see below.",
    "configurations": "A list of arguments of actions.",
    "configurations[].name": "The name of the action.",
    "configurations[].arguments": "The arguments of the action; see below.",
    "metrics": "Volcano's source of real load. muster reads no metrics and reports the key.",
    "compatibility": f"`{COMPATIBILITIES[0]}`: Volcano's rules of eviction. Default: muster's own rules.",
}


def page() -> str:
    """The page."""
    lines = [
        "# Configuration keys", "",
        *paragraph(
            "Every key of the configuration file, every switch and every argument. [The configuration "
            "file](configuration.md) explains them with examples; [plugins](plugins.md) has the extension points of "
            "each plugin. A key that muster does not know is reported with its line. This page is written from the "
            "code."
        ), "",
        "## Keys", "",
        *table(["key", "meaning"], [[f"`{key}`", meaning] for key, meaning in KEYS.items()]), "",
        "## Switches", "",
        *paragraph(
            "A switch turns an extension point of one plugin on or off. The spelling is Volcano's. A dash means that "
            "muster has no such extension point: the switch has no effect."
        ), "",
        *table(["switch", "default", "extension points"], _switches()), "",
        "## Actions", "",
        *table(["action", "arguments", "what it does"], _actions()), "",
        "## Arguments of plugins", "",
        *paragraph(
            "An argument is a number, a text or `true`/`false`. An argument that ends in `*` is a prefix: the rest is "
            "a name, for example of a resource."
        ), "",
        *table(["plugin", "argument", "default", "meaning"], _arguments()),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _switches() -> list[list[str]]:
    points = extension_points()
    other = {"enableHierarchy": "the hierarchy of queues in `capacity` and `drf`"}
    return [
        [f"`{switch}`", "off" if switch in OFF_BY_DEFAULT else "on",
         ", ".join(f"`{name}`" for name, kind in points.items() if kind.switch == switch)
         or other.get(switch, "–")]
        for switch in SWITCHES
    ]  # fmt: skip


def _actions() -> list[list[str]]:
    modules = {name: __import__(action(name).__module__, fromlist=["run"]) for name in ACTIONS}
    return [
        [f"`{name}`", ", ".join(f"`{one}`" for one in sorted(arguments)) or "–",
         first_sentence(modules[name]).removeprefix(f"{name}: ")]
        for name, arguments in ACTIONS.items()
    ]


def _arguments() -> list[list[str]]:
    rows = []
    for plugin in matrix():
        if plugin.name not in PLUGINS:
            continue
        for name, meaning in plugin.arguments.items():
            default = plugin.defaults.get(name, "")
            rows.append([plugin.name, f"`{name}`", default or "–", meaning.removesuffix(f" ({default})")])
    return rows
