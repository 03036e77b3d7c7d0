"""Loads the text of a ``scheduler.yaml`` into a ``Config`` and a list of findings.

An unknown name is an error that suggests the nearest known name: if a misspelt plugin were skipped silently, the
cluster would be scheduled without it. Names that only Volcano has are warnings, so that Volcano's files can be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.config.arguments import Arguments, as_bool
from muster.config.names import covers, suggest, unknown_arguments
from muster.config.source import ConfigSource, find_configuration
from muster.config.types import COMPATIBILITIES, SWITCHES, Config, Known, PluginOption, Tier
from muster.config.volcano_only import SERVED_BY, VOLCANO_ACTIONS, VOLCANO_ARGUMENTS, VOLCANO_PLUGINS
from muster.model.finding import Finding, Severity, in_order
from muster.model.yamltext import YamlError

__all__ = ["DEFAULT", "DEFAULT_ACTIONS", "DEFAULT_NAME", "load"]

_TOP = ("actions", "tiers", "configurations", "metrics", "compatibility")
Path = tuple[str | int, ...]

DEFAULT_NAME = "(built-in default)"
DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")

# The built-in configuration: Volcano's default, and four plugins that only affect the objects that use them. nodegroup
# affects queues that name node groups, topology groups that name a Topology or networkTopology, topology910 pods that
# request chips, propagation applications with a PropagationPolicy. Other objects are scheduled as without them.
DEFAULT = f"""\
actions: "{", ".join(DEFAULT_ACTIONS)}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: nodegroup
  - name: topology
  - name: topology910
  - name: propagation
"""


def load(text: str, name: str, known: Known) -> tuple[Config, list[Finding]]:
    """Returns the configuration as far as it is valid; with a finding of severity error it must not be used."""
    try:
        source = find_configuration(text, name)
    except YamlError as error:
        return Config(), [Finding("error", error.file, error.line, "", "config-unreadable", error.message)]
    loading = _Loading(source, known)
    config = loading.config()
    return config, in_order(loading.findings)


class _Loading:
    """One configuration being read."""

    def __init__(self, source: ConfigSource, known: Known) -> None:
        self.source = source
        self.known = known
        self.findings: list[Finding] = []

    def report(self, severity: Severity, path: Path, about: str, code: str, message: str, fix: str = "") -> None:
        line = self.source.line_of(path)
        self.findings.append(Finding(severity, self.source.name, line, about, code, message, fix))

    def config(self) -> Config:
        top = self.source.value
        for key in top:
            if key not in _TOP:
                self.report("error", (key,), "", "unknown-key", f"unknown key {key!r}", suggest(key, _TOP))
        if "actions" not in top and "tiers" in top:
            actions = self.no_actions()  # design 4's sample for Volcano's chart has tiers only
        else:
            actions = tuple(self.actions(top.get("actions")))
        tiers = tuple(self.tiers(top.get("tiers")))
        understood = all(finding.severity != "error" for finding in self.findings)
        if understood and not any(tier.plugins for tier in tiers):
            self.report("warning", ("tiers",), "", "no-plugins", "no plugin is configured: nothing filters or orders")
        configurations = dict(self.configurations(top.get("configurations")))
        return Config(actions, tiers, configurations, self.compatibility(top.get("compatibility")))

    def compatibility(self, value: object) -> str:
        if value is None or value in COMPATIBILITIES:
            return str(value or "")
        message = f"compatibility is {value!r}; the only value is {COMPATIBILITIES[0]}"
        fix = f"write `compatibility: {COMPATIBILITIES[0]}`, or remove the key for muster's own rules of eviction"
        self.report("error", ("compatibility",), "", "unknown-compatibility", message, fix)
        return ""

    def entries(self, value: object, path: Path, what: str) -> Iterator[tuple[dict[str, Any], Path]]:
        """Yields the mappings of a list; any other entry is an error."""
        if value is None:
            return
        if not isinstance(value, list):
            self.report("error", path, "", "config-shape", f"{what} should be a list", "begin each entry with `- `")
            return
        for index, entry in enumerate(value):
            if isinstance(entry, dict):
                yield entry, (*path, index)
            else:
                fix = f"write `- name: {entry}`" if isinstance(entry, str) else "give a mapping"
                self.report("error", (*path, index), "", "config-shape", f"{entry!r} in {what} is not a mapping", fix)

    def no_actions(self) -> tuple[str, ...]:
        names = ", ".join(DEFAULT_ACTIONS)
        self.report(
            "warning", (), "", "no-actions", f"there are no actions: using {names}", f'write `actions: "{names}"`'
        )
        return DEFAULT_ACTIONS

    def actions(self, value: object) -> Iterator[str]:
        names = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
        names = [name.strip() if isinstance(name, str) else name for name in names]
        names = [name for name in names if name != ""]
        if not names:
            fix = 'write for example `actions: "enqueue, allocate, backfill"`'
            self.report("error", ("actions",), "", "no-actions", "there are no actions", fix)
        for name in names:
            if isinstance(name, str) and name in self.known.actions:
                yield name
            else:
                self.report_unknown("action", str(name), ("actions",))

    def report_unknown(self, what: str, name: str, path: Path) -> None:
        """Reports an action or a plugin that muster does not have."""
        known = self.known.actions if what == "action" else self.known.plugins
        volcano_only = (VOLCANO_ACTIONS if what == "action" else VOLCANO_PLUGINS).get(name)
        about = f"{what} {name}"
        if volcano_only is not None:
            message = f"muster does not have {name} and skips it; in Volcano it {volcano_only.did}"
            self.report("warning", path, about, f"foreign-{what}", message, volcano_only.instead)
        else:
            self.report("error", path, about, f"unknown-{what}", f"unknown {what} {name!r}", suggest(name, known))

    def tiers(self, value: object) -> Iterator[Tier]:
        seen: set[str] = set()
        for tier, path in self.entries(value, ("tiers",), "tiers"):
            for key in tier:
                if key != "plugins":
                    fix = suggest(key, ["plugins"])
                    self.report("error", (*path, key), "", "unknown-key", f"unknown key {key!r} in a tier", fix)
            options: list[PluginOption] = []
            for entry, below in self.entries(tier.get("plugins"), (*path, "plugins"), "plugins"):
                option = self.plugin(entry, below)
                if option is None:
                    continue
                if option.name in seen:
                    about = f"plugin {option.name}"
                    self.report("warning", below, about, "plugin-twice", "listed twice: the first counts", "remove one")
                    continue
                seen.add(option.name)
                options.append(option)
            self.check_hierarchy(options, path)
            yield Tier(tuple(options))

    def check_hierarchy(self, options: list[PluginOption], path: Path) -> None:
        """Reports, as Volcano does, two plugins that would order the queues of one tier by different rules."""
        drf = next((option for option in options if option.name == "drf"), None)
        if drf is not None and drf.enabled("enableHierarchy") and any(o.name == "proportion" for o in options):
            message = "drf with enableHierarchy cannot be in the same tier as proportion"
            fix = "move one of them to another tier, or leave proportion out"
            self.findings.append(
                Finding("error", self.source.name, drf.line, "plugin drf", "drf-hierarchy", message, fix)
            )

    def plugin(self, entry: dict[str, Any], path: Path) -> PluginOption | None:
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            self.report("error", path, "", "config-shape", "a plugin without a name", "add `name:`")
            return None
        about = f"plugin {name}"
        line = self.source.line_of((*path, "name"))
        served = SERVED_BY.get(name) if name not in self.known.plugins else None
        if served is not None and served in self.known.plugins:
            message = f"{name} is served by muster's plugin {served}"
            self.report("notice", (*path, "name"), about, "served-by", message, f"write `name: {served}`")
        elif name not in self.known.plugins:
            self.report_unknown("plugin", name, (*path, "name"))
            return None
        arguments = self.arguments(
            entry.get("arguments"),
            (*path, "arguments"),
            about,
            self.known.plugins[served or name],
            VOLCANO_ARGUMENTS.get(name, {}),
        )
        return PluginOption(served or name, self.switches(entry, path, served or name), arguments, line)

    def switches(self, entry: dict[str, Any], path: Path, name: str) -> dict[str, bool]:
        given: dict[str, bool] = {}
        about = f"plugin {name}"
        for key, value in entry.items():
            if key in ("name", "arguments"):
                continue
            if key not in SWITCHES:
                misplaced = not list(unknown_arguments({key: value}, self.known.plugins[name]))
                fix = "move it under `arguments`" if misplaced else suggest(key, ("name", "arguments", *SWITCHES))
                self.report("error", (*path, key), about, "unknown-switch", f"unknown switch {key!r}", fix)
                continue
            taken = as_bool(value)
            if taken is None:
                default = str(PluginOption(name).enabled(key)).lower()
                message = f"{key} is {value!r}, which is neither true nor false: using {default}"
                self.report("warning", (*path, key), about, "switch-value", message, "give true or false")
                continue
            if not isinstance(value, bool):
                word = str(taken).lower()
                message = f"{key} is the text {value!r}: taken as {word}"
                self.report("warning", (*path, key), about, "switch-value", message, f"write {word}")
            given[key] = taken
        return given

    def arguments(
        self, value: object, path: Path, about: str, known: frozenset[str], volcano_only: Mapping[str, str]
    ) -> Arguments:
        """Returns the arguments with their lines. Those that only Volcano has are left out with a warning."""
        if value is not None and not isinstance(value, dict):
            self.report(
                "error", path, about, "config-shape", "arguments should be a mapping", "write `key: value` lines"
            )
        values = dict(value) if isinstance(value, dict) else {}
        for unknown in list(unknown_arguments(values, known)):
            flat = ".".join(unknown)
            why = next((why for pattern, why in volcano_only.items() if covers(pattern, flat)), None)
            if why is not None:
                message = f"the argument {flat} has no effect in muster"
                self.report("warning", (*path, *unknown), about, "foreign-argument", message, why)
                values.pop(unknown[0], None)
            else:
                message = f"unknown argument {flat!r}"
                self.report("error", (*path, *unknown), about, "unknown-argument", message, suggest(flat, known))
        line_of = self.source.line_of
        return Arguments(values, owner=about, file=self.source.name, line_of=lambda below: line_of((*path, *below)))

    def configurations(self, value: object) -> Iterator[tuple[str, Arguments]]:
        seen: set[str] = set()
        for entry, path in self.entries(value, ("configurations",), "configurations"):
            name = entry.get("name")
            for key in entry:
                if key not in ("name", "arguments"):
                    fix = suggest(key, ("name", "arguments"))
                    self.report("error", (*path, key), "", "unknown-key", f"unknown key {key!r} in configurations", fix)
            if not isinstance(name, str) or not name:
                self.report(
                    "error", path, "", "config-shape", "a configuration without its action's name", "add `name:`"
                )
            elif name not in self.known.actions:
                self.report_unknown("action", name, (*path, "name"))
            elif name in seen:
                about = f"action {name}"
                self.report("warning", path, about, "action-twice", "configured twice: the first counts", "remove one")
            else:
                seen.add(name)
                known, volcano_only = self.known.actions[name], VOLCANO_ARGUMENTS.get(name, {})
                below = (*path, "arguments")
                yield name, self.arguments(entry.get("arguments"), below, f"action {name}", known, volcano_only)
