"""The edition of a node group: an application's pod template with the rules of an OverridePolicy applied.

Rules are applied in the order written; inside a rule images, commands, args, then patches, each on the result of the
last. If one fails, the whole edition fails. The given template is never changed. The result is checked as a pod:
`privileges` lists what it must not gain over the template. `outdated_fields` compares a pod with its edition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from muster.groups.override import image, json_patch
from muster.groups.override.pod_security import containers, mapping, mappings
from muster.groups.override.policy import Bases, GroupRule, faults, in_pod, rules_for, substitute_group
from muster.groups.override.privileges import Gain, gained
from muster.model.groups import CommandArgsOverrider, ImageOverrider, OverridePolicySpec, PlaintextOverrider

__all__ = ["Edition", "OverrideError", "edition", "outdated_fields"]

Template = dict[str, Any]  # metadata and spec of a pod, as plain values


PERMIT = "--allow-privileged-overrides permits it"


class OverrideError(Exception):
    """The edition cannot be computed; the message names the field of the rule and what is wrong."""

    def __init__(self, text: str, path: str = "") -> None:
        """`path`: the field of the policy, if there is one."""
        super().__init__(text)
        self.path = path


@dataclass(slots=True)
class Edition:
    """The pod template for the group, and warnings about it."""

    template: Template
    warnings: list[str] = field(default_factory=list)


def edition(
    spec: OverridePolicySpec, groups: Sequence[str], template: Template, *, privileged: bool = False, bases: Bases = ()
) -> Edition:
    """Computes the template for pods in that node group (or in several).

    `privileged`: the policy may grant any privilege. `bases`: the path of the template in a custom kind of workload.
    """
    wrong = faults(spec, bases)
    if wrong:
        raise OverrideError("; ".join(str(fault) for fault in wrong))
    made = Edition(deepcopy(template))
    for _ in _steps(made, rules_for(spec, groups), bases):
        pass
    if made.template != template:
        _check(template, made.template)
        given = [] if privileged else gained(template, made.template)
        if given:
            raise _refusal(given, _granting_overrides(given, template, rules_for(spec, groups), bases))
    return made


def _steps(made: Edition, rules: Sequence[GroupRule], bases: Bases) -> Iterator[str]:
    """Applies the overrides one after the other; yields the path of each applied override."""
    pod = made.template
    for rule in rules:
        group = rule.group
        for path, overrider in rule.images:
            for steps in _images(pod, overrider, bases):
                _change_image(made, path, steps, overrider, substitute_group(overrider.value, group))
            yield path
        for name, commands in (("command", rule.commands), ("args", rule.args)):
            for path, command in commands:
                _change_command(made, path, name, command, substitute_group(command.value, group))
                yield path
        for path, patch in rule.patches:
            _patch(pod, path, patch, in_pod(patch.path, bases), group)
            yield path


def _granting_overrides(
    given: Sequence[Gain], template: Template, rules: Sequence[GroupRule], bases: Bases
) -> dict[Gain, str]:
    """Each gain with the override that granted it: the last override after which it was new."""
    granted_by: dict[Gain, str] = {}
    had: set[Gain] = set()
    made = Edition(deepcopy(template))
    for path in _steps(made, rules, bases):
        has = set(gained(template, made.template))
        granted_by |= dict.fromkeys(has - had, path)
        had = has
    return {gain: granted_by[gain] for gain in given}


def _refusal(given: Sequence[Gain], granted_by: dict[Gain, str]) -> OverrideError:
    gains = "; ".join(f"{gain} ({granted_by[gain]})" for gain in given)
    text = f"the edition must not gain privileges over its template: {gains} ({PERMIT})"
    return OverrideError(text, granted_by[given[0]])


def _images(pod: Template, overrider: ImageOverrider, bases: Bases) -> Iterator[list[str]]:
    """The paths of the images that an overrider changes: that of its predicate, or those of all containers."""
    if overrider.predicate is not None:
        yield in_pod(overrider.predicate.path, bases, slash=False)
        return
    lists = ("containers", "initContainers") if overrider.include_init_containers else ("containers",)
    for field_ in lists:
        for i, _ in enumerate(_containers(pod, field_)):
            yield ["spec", field_, str(i), "image"]


def _change_image(made: Edition, path: str, steps: list[str], overrider: ImageOverrider, value: str) -> None:
    try:
        old = json_patch.get(made.template, steps)
    except json_patch.PointerError as fault:
        raise OverrideError(f"{path}: {fault}", path) from None
    if not isinstance(old, str) or not old:
        raise OverrideError(f"{path}: {json_patch.text(steps)} is no image", path)
    new = str(image.changed(image.parse(old), overrider.component, overrider.operator, value))
    if new == old and overrider.component == "Tag" and overrider.operator != "remove" and value not in old:
        made.warnings.append(f"{path}: {value!r} makes neither a tag nor a digest of {old}; it stays as it is")
    json_patch.replace(made.template, steps, new)


def _change_command(made: Edition, path: str, name: str, overrider: CommandArgsOverrider, value: list[str]) -> None:
    found = [c for c in _containers(made.template, "containers") if c.get("name") == overrider.container_name]
    if not found:
        made.warnings.append(f"{path}: there is no container {overrider.container_name}; nothing is changed")
    for container in found if value else ():
        old = container.get(name) or []
        if not isinstance(old, list):
            raise OverrideError(f"{path}: {name} of container {overrider.container_name} is not a list", path)
        new = [*old, *value] if overrider.operator == "add" else [item for item in old if item not in value]
        if new != old:
            container[name] = new


def _patch(pod: Template, path: str, patch: PlaintextOverrider, steps: list[str], group: str) -> None:
    try:
        if patch.operator == "remove":
            json_patch.remove(pod, steps)
        elif patch.operator == "add":
            json_patch.add(pod, steps, substitute_group(patch.value, group))
        else:
            json_patch.replace(pod, steps, substitute_group(patch.value, group))
    except json_patch.PointerError as fault:
        raise OverrideError(f"{path}: {patch.operator} {patch.path}: {fault}", path) from None


def _containers(pod: Template, field_: str) -> list[Template]:
    return mappings(mapping(pod.get("spec")).get(field_))


def _check(before: Template, after: Template) -> None:
    """Checks that the result is still a valid pod, with images that can be pulled."""
    if not _containers(after, "containers"):
        raise OverrideError("the edition has no containers")
    known = {c.get("name"): c.get("image") for c in containers(before)}
    names: list[str] = []
    for container in containers(after):
        name, reference = container.get("name"), container.get("image")
        if not isinstance(name, str) or not name:
            raise OverrideError("the edition has a container without a name")
        if name in names:
            raise OverrideError(f"the edition has two containers called {name}")
        if not isinstance(reference, str) or not reference:
            raise OverrideError(f"the edition's container {name} has no image")
        if reference != known.get(name) and (why := image.unusable(reference)):
            raise OverrideError(f"the edition's container {name}: image {reference!r}: {why}")
        names.append(name)


def outdated_fields(template: Any, edition: Any, pod: Any, path: str = "") -> list[str]:
    """Returns the paths of the fields that the rules changed and in which the pod differs from the edition.

    Others change pods, too: the API server sets defaults, admission adds tolerations and volumes. So a field counts
    only if template and edition differ in it, mappings may have additional members, and containers, volumes and other
    named items are matched by name.
    """
    if template == edition:
        return []
    if isinstance(template, dict) and isinstance(edition, dict):
        return _members(template, edition, pod if isinstance(pod, dict) else {}, path)
    if isinstance(template, list) and isinstance(edition, list):
        before, after, has = _by_name(template), _by_name(edition), _by_name(pod)
        if before is not None and after is not None and has is not None:
            return _members(before, after, has, path)
        return [] if _items(template, edition, pod) else [path]
    return [] if _has(pod, edition) else [path]


def _members(template: dict[str, Any], edition: dict[str, Any], pod: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name in (*template, *(name for name in edition if name not in template)):
        place = f"{path}/{name}"
        if name not in edition:
            # A default of the API server does not come from the template.
            found += [place] if name in pod and _has(pod[name], template[name]) else []
        elif name not in template:
            found += [] if (name in pod and _has(pod[name], edition[name])) or not edition[name] else [place]
        else:
            found += outdated_fields(template[name], edition[name], pod.get(name), place)
    return found


def _items(template: list[Any], edition: list[Any], pod: Any) -> bool:
    if not isinstance(pod, list):
        return not edition
    if not all(isinstance(item, dict) for item in (*template, *edition)):
        return bool(edition == pod)  # commands, arguments: the order counts, and nothing else adds to them
    gone = [item for item in template if item not in edition]
    return all(any(_has(one, item) for one in pod) for item in edition) and not any(item in pod for item in gone)


def _has(pod: Any, wanted: Any) -> bool:
    """Whether the pod's value contains the wanted value."""
    if isinstance(wanted, dict):
        return isinstance(pod, dict) and all(_has(pod.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(pod, list):
        items, has = _by_name(wanted), _by_name(pod)
        if items is not None and has is not None:
            return _has(has, items)
        return _items([], wanted, pod)
    return bool(pod == wanted) or (not pod and not wanted)


def _by_name(items: Any) -> dict[str, Any] | None:
    """The items by name; None if not all items have names."""
    if items is None:
        return {}
    if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("name"), str) for i in items):
        return None
    return {item["name"]: item for item in items}
