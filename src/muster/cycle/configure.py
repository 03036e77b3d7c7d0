"""Loads, validates and describes configurations, with the plugins and actions that exist.

`configure` loads a text into a Config. `validate_configuration` adds the findings of the plugins and advice on what has
no effect. `effective` has every argument as its plugin read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from muster.config import DEFAULT, DEFAULT_NAME, Config, Known, load, render
from muster.config.source import find_configuration
from muster.config.types import PluginOption
from muster.cycle.registry import ACTIONS, PLUGINS, broken, known, third_party
from muster.cycle.scheduler import Scheduler
from muster.engine.core import hooks
from muster.engine.core.hooks import (
    Hook,
    JobEnqueue,
    NodeScorer,
    Opinion,
    Plugin,
    Preemptable,
    Reclaimable,
    VictimHints,
)
from muster.model.finding import Finding, Severity, in_order

VICTIM_HOOKS: dict[str, type[Hook]] = {"preempt": Preemptable, "reclaim": Reclaimable}
NAMING = {"preempt": "priority or drf", "reclaim": "proportion or capacity"}  # built-in plugins that name victims
VOLCANO_PERMITS = (
    "by Volcano's rules {actions} may leave gangs below their minimum, evict pods of equal or higher priority, evict "
    "pods for a claimer that is then not bound, and in simulate violate PodDisruptionBudgets"
)


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


def validate_configuration(text: str, name: str) -> tuple[Scheduler, list[Finding]]:
    """Returns a scheduler with the configuration as far as it is usable, and all findings about it."""
    config, findings = configure(text, name)
    scheduler = Scheduler(config)
    usable = all(finding.severity != "error" for finding in findings)
    findings += scheduler.findings()
    if usable:
        findings += advice(scheduler, text, name)
    return scheduler, in_order(findings)


def effective(scheduler: Scheduler) -> dict[str, Any]:
    """Returns the effective configuration: every plugin with its arguments as it read them."""
    plain = render(scheduler.config)
    for tier, entries in zip(scheduler.tiers, plain["tiers"], strict=True):
        for plugin, entry in zip(tier, entries["plugins"], strict=True):
            arguments = plugin.effective()
            if arguments:
                entry["arguments"] = arguments
    return plain


def effective_hash(scheduler: Scheduler) -> str:
    """Returns a hash that ignores comments and the order of arguments: equal for equivalent configurations."""
    text = json.dumps(effective(scheduler), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def advice(scheduler: Scheduler, text: str, name: str) -> list[Finding]:
    """Returns the advice on a configuration that loaded without error."""
    return list(_Advice(scheduler, text, name).all())


class _Advice:
    """Plugins that are never called, and switches and weights without effect."""

    def __init__(self, scheduler: Scheduler, text: str, name: str) -> None:
        self.config = scheduler.config
        self.actions = scheduler.config.actions
        # By Volcano's rules every plugin that has the hook names victims.
        self.by_volcano = scheduler.config.compatibility == "volcano"
        self.tiers = [
            list(zip(tier, options.plugins, strict=True))
            for tier, options in zip(scheduler.tiers, scheduler.config.tiers, strict=True)
        ]
        self.name = name
        source = find_configuration(text, name)
        self.actions_line = source.line_of(("actions",))
        self.compatibility_line = source.line_of(("compatibility",))

    def finding(
        self, severity: Severity, option: PluginOption | None, code: str, message: str, fix: str = ""
    ) -> Finding:
        line = self.actions_line if option is None else option.line
        about = "actions" if option is None else f"plugin {option.name}"
        return Finding(severity, self.name, line, about, code, message, fix)

    def all(self) -> Iterator[Finding]:
        yield from self.action_list()
        yield from self.missing_plugins()
        yield from self.compatibility()
        for action in VICTIM_HOOKS:
            yield from self.victims(action)
        for tier in self.tiers:
            for plugin, option in tier:
                yield from self.switches(plugin, option)
                yield from self.weights(plugin, option)

    def action_list(self) -> Iterator[Finding]:
        actions = self.actions
        for twice in sorted({action for action in actions if actions.count(action) > 1}):
            message = f"{twice} is listed {actions.count(twice)} times and runs as often in each cycle"
            yield self.finding("warning", None, "action-twice", message, "list it once")
        if "allocate" in actions and "enqueue" not in actions:
            message = "without enqueue every pod group is admitted at once: no plugin checks the capacity"
            yield self.finding("notice", None, "no-enqueue", message, "add enqueue before allocate to hold groups back")
        if "enqueue" in actions and "allocate" in actions and actions.index("enqueue") > actions.index("allocate"):
            message = "enqueue comes after allocate: a new pod group is placed one cycle late"
            yield self.finding("warning", None, "action-order", message, "put enqueue first")
        if "allocate" not in actions:
            message = "without allocate pods with requests are only placed by evicting others, if at all"
            yield self.finding("warning", None, "no-allocate", message, "add allocate")
        if "backfill" not in actions:
            message = "without backfill pods that request nothing are never placed"
            yield self.finding("notice", None, "no-backfill", message, "add backfill at the end")

    def missing_plugins(self) -> Iterator[Finding]:
        there = {option.name: option for option in self.config.plugins()}
        if "predicates" not in there:
            message = "without predicates nothing checks taints, selectors, affinity, ports or volumes"
            yield self.finding("warning", None, "no-predicates", message, "add predicates to a tier")
        if "gang" not in there:
            message = "without gang minMember is not held: groups start with whatever pods fit"
            yield self.finding("notice", None, "no-gang", message, "add gang")
        if "proportion" in there and "capacity" in there:
            message = "proportion and capacity are both configured: each limits queues by its own idea of their share"
            yield self.finding("warning", there["capacity"], "two-quotas", message, "keep one of them")
        if "enqueue" not in self.actions:
            for tier in self.tiers:
                for plugin, option in tier:
                    if isinstance(plugin, JobEnqueue) and option.name in ("overcommit", "sla"):
                        message = "has no effect: it is only called in enqueue, which is not among the actions"
                        yield self.finding("warning", option, "never-asked", message, "add enqueue, or take it out")

    def compatibility(self) -> Iterator[Finding]:
        """Yields what Volcano's rules permit and muster's rules forbid."""
        evicting = [action for action in VICTIM_HOOKS if action in self.actions]
        if self.by_volcano and evicting:
            message = VOLCANO_PERMITS.format(actions=" and ".join(evicting))
            fix = "remove the key for muster's own rules of eviction"
            line = self.compatibility_line
            yield Finding("warning", self.name, line, "compatibility", "compatibility-volcano", message, fix)

    def victims(self, action: str) -> Iterator[Finding]:
        """Yields a finding if the action is configured and no plugin names victims: then no pod is evicted."""
        if action not in self.actions:
            return
        pairs = [pair for tier in self.tiers for pair in tier]
        hook = VICTIM_HOOKS[action]
        if self.by_volcano and any(isinstance(p, hook) and o.enabled(hook.switch or "") for p, o in pairs):
            return
        if any(has_opinion(action, plugin, option) for plugin, option in pairs):
            return
        muted = [option for plugin, option in pairs if has_opinion(action, plugin, PluginOption(option.name))]
        if muted:
            names = " and ".join(option.name for option in muted)
            message = f"{action} never evicts anything: {hook.switch} is false for {names}, so no plugin names victims"
            yield self.finding(
                "warning", muted[0], "no-victims", message, f"set {hook.switch}: true, or remove {action}"
            )
            return
        message = f"{action} never evicts anything: no configured plugin names victims"
        fix = f"add the plugin {NAMING[action]}, or remove {action}"
        yield self.finding("warning", None, "no-victims", message, fix)

    def switches(self, plugin: Plugin, option: PluginOption) -> Iterator[Finding]:
        """Yields switches for extension points that the plugin does not have."""
        for switch in option.switches:
            those = [hook for hook in _switched() if hook.switch == switch]
            if those and not any(isinstance(plugin, hook) for hook in those):
                message = f"{switch} has no effect: the plugin does nothing that it switches"
                yield self.finding("notice", option, "idle-switch", message, "take it out")

    def weights(self, plugin: Plugin, option: PluginOption) -> Iterator[Finding]:
        if not isinstance(plugin, NodeScorer):
            return
        for key, value in option.arguments.items():
            if "weight" in key.lower() and not isinstance(value, bool) and value in (0, "0"):
                message = f"{key} is 0: that score counts for nothing"
                line = option.arguments.line_of(key)
                yield Finding(
                    "warning", self.name, line, f"plugin {option.name}", "weight-zero", message, "give it a weight"
                )
        if not option.enabled("enableNodeOrder"):
            message = "enableNodeOrder is off: it scores no node"
            yield self.finding("notice", option, "no-scores", message)


def has_opinion(action: str, plugin: Plugin, option: PluginOption) -> bool:
    """Returns whether the plugin names victims in `preempt` or `reclaim`. If no plugin does, no pod is evicted."""
    hook = VICTIM_HOOKS[action]
    if not isinstance(plugin, VictimHints) or not isinstance(plugin, hook) or plugin.opinion == Opinion.NONE:
        return False
    if option.name == "drf" and action == "reclaim" and not option.enabled("enableHierarchy"):
        return False  # without the hierarchy it does not compare queues
    return option.enabled(hook.switch or "")


def _switched() -> list[type[Hook]]:
    """Returns every extension point that has a switch."""
    return [
        kind for kind in vars(hooks).values()
        if isinstance(kind, type) and issubclass(kind, Hook) and kind.switch is not None
    ]  # fmt: skip
