"""The rules of an OverridePolicy for a node group, their validation, the paths of their overriders, and the group's
name in values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import UNSET, Struct

from muster.groups.membership import resolve
from muster.groups.override.image import COMPONENTS, OPERATORS, bad_value
from muster.groups.override.json_patch import PointerError, text, tokens
from muster.groups.propagation import PolicyProblem
from muster.model.groups import (
    CommandArgsOverrider,
    ImageOverrider,
    OverridePolicySpec,
    Overriders,
    OverrideRule,
    PlaintextOverrider,
)

__all__ = [
    "VARIABLE", "Bases", "GroupRule", "faults", "in_pod", "rules_for", "substitute_group", "unknown_targets",
    "warnings",
]  # fmt: skip

VARIABLE = "{{nodegroup}}"
COMMAND_OPERATORS = ("add", "remove")
PATCH_OPERATORS = ("add", "replace", "update", "remove")

Bases = Collection[tuple[str, ...]]  # the paths of the templates in custom kinds
_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
_METADATA = frozenset({"labels", "annotations"})
# The fields of a pod's spec (Kubernetes 1.36). Others belong to the workload, such as /spec/replicas.
_SPEC = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers",
    "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os",
    "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources",
    "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes", "workloadRef",
})  # fmt: skip


class GroupRule(Struct, frozen=True):
    """The overriders of a rule, each with its path in the policy, and the group that the rule is applied for."""

    group: str
    images: list[tuple[str, ImageOverrider]]
    commands: list[tuple[str, CommandArgsOverrider]]
    args: list[tuple[str, CommandArgsOverrider]]
    patches: list[tuple[str, PlaintextOverrider]]


def rules_for(spec: OverridePolicySpec, groups: Sequence[str]) -> list[GroupRule]:
    """The rules for node groups (mostly one), in the order written: those that target one of them, or every group."""
    found = []
    for i, rule in enumerate(spec.override_rules):
        # Names of objects are lower case: `Beijing` means `beijing`.
        targets = {spelling for name in rule.target_node_group for spelling in (name, name.lower())}
        targeted = [group for group in groups if not targets or group in targets]
        if targeted:
            found.append(_rule(rule, i, targeted[0]))
    return found


def _rule(rule: OverrideRule, index: int, group: str = "") -> GroupRule:
    path = f"spec.overrideRules[{index}]"
    # The overriders of the API first, then those written directly into the rule as in the design's example.
    parts: list[tuple[str, Overriders]] = [(path, rule)]
    if rule.overriders is not None:
        parts.insert(0, (f"{path}.overriders", rule.overriders))
    return GroupRule(
        group,
        [(f"{at}.imageOverrider[{i}]", o) for at, part in parts for i, o in enumerate(part.image_overrider)],
        [(f"{at}.commandOverrider[{i}]", o) for at, part in parts for i, o in enumerate(part.command_overrider)],
        [(f"{at}.argsOverrider[{i}]", o) for at, part in parts for i, o in enumerate(part.args_overrider)],
        [(f"{at}.plaintext[{i}]", o) for at, part in parts for i, o in enumerate(part.plaintext)],
    )


def substitute_group(value: Any, group: str) -> Any:
    """A copy of the value with {{nodegroup}} replaced by the group's name in all its strings."""
    if isinstance(value, str):
        return value.replace(VARIABLE, group)
    if isinstance(value, list):
        return [substitute_group(item, group) for item in value]
    if isinstance(value, dict):
        return {substitute_group(name, group): substitute_group(item, group) for name, item in value.items()}
    return value


def warnings(spec: OverridePolicySpec) -> Iterator[PolicyProblem]:
    """Warnings about a policy that can be used nevertheless."""
    for i, rule in enumerate(spec.override_rules):
        path = f"spec.overrideRules[{i}]"
        for name in rule.target_node_group:
            if name != name.lower():
                message = f"names node group {name!r}; using {name.lower()!r}"
                yield PolicyProblem(f"{path}.targetNodeGroup", message, "write it in lower case")
        direct = rule.image_overrider or rule.command_overrider or rule.args_overrider or rule.plaintext
        if rule.overriders is not None and direct:
            message = "has overriders both under overriders and beside it; those beside it come after"
            yield PolicyProblem(path, message, "write them in one place")


def unknown_targets(spec: OverridePolicySpec, existing: Collection[str]) -> Iterator[PolicyProblem]:
    """Target groups of rules that do not exist (yet)."""
    for i, rule in enumerate(spec.override_rules):
        for name in rule.target_node_group:
            if resolve(name, existing) is None:
                message = f"there is no node group {name.lower()}: the rule has no effect"
                path = f"spec.overrideRules[{i}].targetNodeGroup"
                yield PolicyProblem(path, message, "create it, or take the name out")


def faults(spec: OverridePolicySpec, bases: Bases = ()) -> list[PolicyProblem]:
    """What makes a policy invalid for every workload. `bases`: the paths of the templates in custom kinds."""
    found: list[PolicyProblem] = []
    for i, written in enumerate(spec.override_rules):
        rule = _rule(written, i)
        for path, image in rule.images:
            found += _image_faults(path, image, bases)
        for path, command in (*rule.commands, *rule.args):
            found += _command_faults(path, command)
        for path, patch in rule.patches:
            found += _patch_faults(path, patch, bases)
    return found


def _image_faults(path: str, image: ImageOverrider, bases: Bases) -> Iterator[PolicyProblem]:
    if image.component not in COMPONENTS:
        yield _choice(f"{path}.component", image.component, COMPONENTS)
    if image.operator not in OPERATORS:
        yield _choice(f"{path}.operator", image.operator, OPERATORS)
    elif image.operator == "remove":
        if image.component == "Repository":
            message = "an image without a repository is none"
            yield PolicyProblem(f"{path}.operator", message, "replace the repository, or remove Registry or Tag")
    elif not image.value:
        yield PolicyProblem(f"{path}.value", f"must not be empty for {image.operator}", "write the text")
    elif why := bad_value(image.component, image.operator, substitute_group(image.value, "g")):
        yield PolicyProblem(f"{path}.value", why, "write it as in an image reference")
    if image.predicate is not None:
        yield from _path_faults(f"{path}.predicate.path", image.predicate.path, bases, slash=False)


def _command_faults(path: str, command: CommandArgsOverrider) -> Iterator[PolicyProblem]:
    if command.operator not in COMMAND_OPERATORS:
        yield _choice(f"{path}.operator", command.operator, COMMAND_OPERATORS)
    if not command.container_name:
        yield PolicyProblem(f"{path}.containerName", "is missing", "name the container")


def _patch_faults(path: str, patch: PlaintextOverrider, bases: Bases) -> Iterator[PolicyProblem]:
    if patch.operator not in PATCH_OPERATORS:
        yield _choice(f"{path}.operator", patch.operator, PATCH_OPERATORS)
    elif patch.operator == "remove":
        if patch.value is not UNSET and patch.value not in (None, ""):
            yield PolicyProblem(f"{path}.value", "must be empty for remove", "take it out")
    elif patch.value is UNSET:
        yield PolicyProblem(f"{path}.value", f"is missing: {patch.operator} needs one", "write the value (null is one)")
    yield from _path_faults(f"{path}.path", patch.path, bases, slash=True)


def _path_faults(field: str, path: str, bases: Bases, *, slash: bool) -> Iterator[PolicyProblem]:
    if VARIABLE in path:
        yield PolicyProblem(
            field, f"{VARIABLE} is replaced by the group's name in values only", "write a rule for each group"
        )
        return
    try:
        in_pod(path, bases, slash=slash)
    except PointerError as fault:
        yield PolicyProblem(field, str(fault), "write the path of a field of the pod")


def _choice(path: str, given: str, known: tuple[str, ...]) -> PolicyProblem:
    return PolicyProblem(
        path, f"{given!r} is none of {', '.join(known)}" if given else "is missing", f"write {known[0]}"
    )


def in_pod(path: str, bases: Bases = (), *, slash: bool = True) -> list[str]:
    """Returns the steps from the pod to the field. Raises PointerError if no pod has it. `slash`: the path must begin
    with /.

    `/spec/template/…` (for a CronJob `/spec/jobTemplate/spec/template/…`) is relative to the workload, since no pod has
    such fields, and so is a path below the template of a configured custom kind. Every other path is relative to the
    pod. One policy can therefore be used for workloads of several kinds.
    """
    steps = tokens(path if path.startswith("/") or slash else f"/{path}")
    for template in (*bases, *_TEMPLATES):
        if tuple(steps[: len(template)]) == template:
            steps = steps[len(template) :]
            break
    top, field = [*steps, "", ""][:2]
    known = {"metadata": _METADATA, "spec": _SPEC}.get(top, frozenset())
    if field not in known:
        raise PointerError(f"{path} is not part of the pod ({_hint(top, text(steps))})")
    return steps


def _hint(top: str, path: str) -> str:
    if top == "metadata":
        return "of a pod's metadata only labels and annotations can be overridden"
    if top == "spec":
        return f"a pod has no {path}; the workload itself is never edited"
    return "paths begin with /spec/… or /metadata/…, or with the workload's /spec/template/…"
