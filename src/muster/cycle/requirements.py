"""Requirements of objects that nothing in the configuration provides.

`validate` reports a hard requirement as an error, `simulate` and `explain` as a warning before they go on. A soft
requirement is a notice. Each plugin declares what it provides (`Plugin.required_by`); `UNSUPPORTED` lists what no
plugin provides yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.config.types import Config, PluginOption
from muster.cycle.registry import plugin_class
from muster.engine.core.native_groups import COMPOSITES, GROUPS
from muster.engine.core.requirements import Requirement
from muster.engine.core.session import Log
from muster.engine.core.state import State
from muster.model.finding import Finding, Severity
from muster.model.native import CompositePodGroup, NativePodGroup

__all__ = ["PROVIDERS", "ignored", "ignored_by_kind", "warnings"]

Kind = tuple[str, bool, str, str, str]
"""What is required, whether it is hard, the finding's code, why it is ignored, and what to do."""

# The plugins that have `required_by`. They are listed so that the others need not be imported.
PROVIDERS = ("gang", "predicates", "nodegroup", "topology", "topology910", "gpu-share", "propagation")
_ADD = "add `- name: {}` to the last tier of the configuration"


def group_claims(state: State) -> Iterator[Requirement]:
    """Yields native groups with resource claims, which muster does not allocate."""
    for kind in (GROUPS, COMPOSITES):
        for key, group in state.objects[kind].items():
            if isinstance(group, NativePodGroup | CompositePodGroup) and group.spec.resource_claims:
                yield Requirement(f"{kind} {key}", "has resourceClaims", hard=True)


# requirements, why muster does not provide them, what to do
UNSUPPORTED: tuple[tuple[Callable[[State], Iterator[Requirement]], str, str], ...] = (
    (
        group_claims,
        "muster does not allocate dynamic resources: the claims are ignored",
        "remove the claims, or let kube-scheduler schedule the group",
    ),
)


def ignored(config: Config, state: State) -> list[Finding]:
    """Returns a finding per ignored requirement; it names the first object that has it and counts the others."""
    return list(ignored_by_kind(config, state).values())


def ignored_by_kind(config: Config, state: State) -> dict[Kind, Finding]:
    """Returns the ignored requirements by what is required and why it is ignored, for all objects together."""
    found: dict[Kind, list[str]] = {}
    for text, hard, code, why, fix, about in _ignored(config, state):
        found.setdefault((text, hard, code, why, fix), []).append(about)
    findings = {}
    for (text, hard, code, why, fix), objects in found.items():
        more = f" (and {len(objects) - 1} more like it)" if len(objects) > 1 else ""
        message = f"{text}, but {why}{more}"
        severity: Severity = "error" if hard else "notice"
        findings[text, hard, code, why, fix] = Finding(severity, "", None, min(objects), code, message, fix)
    return findings


def warnings(config: Config, state: State, log: Log) -> list[str]:
    """Returns the hard requirements as warnings for the user; soft requirements are logged."""
    texts = []
    for finding in ignored(config, state):
        text = f"{finding.object}: {finding.message} ({finding.fix})"
        if finding.severity == "error":
            texts.append(text)
        else:
            log(1, f"notice: {text}")
    return texts


def _ignored(config: Config, state: State) -> Iterator[tuple[str, bool, str, str, str, str]]:
    for name in PROVIDERS:
        option = config.plugin(name)
        if option is not None and all(option.switches.values()):
            continue
        for one in plugin_class(name).required_by(state):
            why = _why(name, option, one)
            if why is not None:
                yield one.text, one.hard, "no-plugin", *why, one.object
    for requirements, reason, fix in UNSUPPORTED:
        for one in requirements(state):
            yield one.text, one.hard, "unsupported", reason, fix, one.object


def _why(name: str, option: PluginOption | None, requirement: Requirement) -> tuple[str, str] | None:
    """Returns why it is ignored and what to do; None if the plugin is configured and the needed switch is on."""
    if option is None:
        return f"the plugin {name} is not configured: this is ignored", _ADD.format(name)
    if requirement.switch and not option.enabled(requirement.switch):
        return f"{requirement.switch} of the plugin {name} is off: this is ignored", f"remove `{requirement.switch}`"
    return None
