"""Finds PropagationPolicies and OverridePolicies that are invalid or doubtful, and applications whose policy does not
exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from muster.config.names import suggest
from muster.engine.core.session import Session
from muster.groups.applications import PolicyLabels, template_path, template_values, unusable_name
from muster.groups.override import OverrideError, edition, faults
from muster.groups.override.policy import warnings
from muster.groups.propagation import PolicyProblem, parse_propagation
from muster.model.batch import APPLICATION_KINDS
from muster.model.custom import custom_kinds
from muster.model.finding import Finding, Severity
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import Object
from muster.validation.locator import Locator

Whole = Callable[[type[Object], str], dict[str, Any]]
"""Returns the object with all its fields, by kind and key."""


def policy_findings(session: Session, locator: Locator, whole: Whole, *, privileged: bool = False) -> Iterator[Finding]:
    """Checks every policy and every application that requires one."""
    objects = session.state.objects
    existing = list(objects["NodeGroup"])
    bases = [template_path(kind) for kind in custom_kinds(objects)]
    for key, policy in sorted(objects["PropagationPolicy"].items()):
        assert isinstance(policy, PropagationPolicy)
        rules = parse_propagation(policy.spec, existing)
        yield from _policy_problems(locator, "PropagationPolicy", key, rules.errors, rules.warnings)
    for key, override in sorted(objects["OverridePolicy"].items()):
        assert isinstance(override, OverridePolicy)
        wrong = faults(override.spec, bases)
        yield from _policy_problems(locator, "OverridePolicy", key, wrong, list(warnings(override.spec)))
        if not wrong:
            yield from _editions(session, locator, whole, key, override, privileged)
    yield from _missing_policies(session, locator)


def _policy_problems(
    locator: Locator, kind: str, key: str, errors: list[PolicyProblem], odd: list[PolicyProblem]
) -> Iterator[Finding]:
    if (why := unusable_name(key.partition("/")[2])) is not None:
        yield locator.finding("warning", kind, key, "policy", f"metadata.name: {why}", "give it a shorter name")
    graded: list[tuple[Severity, list[PolicyProblem]]] = [("error", errors), ("warning", odd)]
    for severity, problems in graded:
        for problem in problems:
            message = f"{problem.path}: {problem.message}"
            yield locator.finding(severity, kind, key, "policy", message, problem.fix, problem.path)


def _editions(
    session: Session, locator: Locator, whole: Whole, key: str, policy: OverridePolicy, privileged: bool
) -> Iterator[Finding]:
    """Reports node groups for which the policy cannot be applied to an application that requires it."""
    objects = session.state.objects
    targets = {name.lower() for rule in policy.spec.override_rules for name in rule.target_node_group}
    groups = sorted({*objects["NodeGroup"], *targets}) or ["any"]
    namespace, _, name = key.partition("/")
    for kind in sorted((*APPLICATION_KINDS, *custom_kinds(objects)), key=lambda kind: kind.__name__):
        for at, app in sorted(objects[kind.__name__].items()):
            requires = app.metadata.labels.get(PolicyLabels.OVERRIDE.required) == name and at.startswith(
                f"{namespace}/"
            )
            path = template_path(kind)
            templates = template_values(path, whole(kind, at)) if requires else []
            refused: dict[tuple[str, str], dict[str, None]] = {}
            for group, template in product(groups, templates):
                try:
                    edition(policy.spec, [group], template, privileged=privileged, bases=(path,))
                except OverrideError as fault:
                    refused.setdefault((str(fault), fault.path), {})[group] = None
            for (text, field), those in refused.items():
                message = f"{kind.__name__} {at} in node group {', '.join(those)}: {text}"
                yield locator.finding("error", "OverridePolicy", key, "edition", message, "change the override", field)


def _missing_policies(session: Session, locator: Locator) -> Iterator[Finding]:
    """Reports applications whose policy does not exist."""
    objects = session.state.objects
    for kind in sorted(cls.__name__ for cls in (*APPLICATION_KINDS, *custom_kinds(objects))):
        for key, app in sorted(objects[kind].items()):
            for pair in PolicyLabels:
                name = app.metadata.labels.get(pair.required)
                if not name:
                    continue
                namespace = key.partition("/")[0]
                if f"{namespace}/{name}" not in objects[pair.value]:
                    there = [k.partition("/")[2] for k in objects[pair.value] if k.startswith(f"{namespace}/")]
                    message = f"requires {pair.value} {name}, and there is none: its pods wait"
                    yield locator.finding("warning", kind, key, "no-policy", message, suggest(name, there))
