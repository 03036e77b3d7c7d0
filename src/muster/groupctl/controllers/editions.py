"""The editions of an application's templates by node group, and what a pod has otherwise; each made once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from muster.groups.override import OverrideError, edition, outdated_fields
from muster.groups.override.paths import Bases
from muster.model.core import Pod
from muster.model.groups import OverridePolicySpec

Template = dict[str, Any]
_LISTS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class ExpectedPod:
    """What a pod of an edition should have: images and metadata, which may change while it runs, and the rest."""

    images: dict[str, str] = field(default_factory=dict)  # container → image
    # labels, annotations → those the rules touch; None: taken away
    metadata: dict[str, dict[str, str | None]] = field(default_factory=dict)
    rest: tuple[Template, Template] = field(default_factory=lambda: ({}, {}))  # as the template has it, as is wanted
    needs_replacement: bool = False  # does it differ in what no running pod can be given?
    fault: str = ""  # why it cannot be made

    def images_to_change(self, pod: Pod) -> dict[str, str]:
        """Container → the image it should have, where it has another."""
        has = {c.name: c.image for c in (*pod.spec.containers, *pod.spec.init_containers)}
        return {name: image for name, image in self.images.items() if image and has.get(name, image) != image}

    def metadata_to_change(self, pod: Pod) -> Template:
        """Labels and annotations that are not as they should be, as a merge patch."""
        changes: Template = {}
        if not any(self.metadata.values()):
            return changes
        for name, has in (("labels", pod.metadata.labels), ("annotations", pod.metadata.annotations)):
            touched = self.metadata.get(name, {})
            wrong = {label: value for label, value in touched.items() if has.get(label) != value}
            if wrong:
                changes[name] = wrong
        return changes

    def immutable_changes(self, whole: Template) -> list[str]:
        """Where the pod (as a plain value) is not as wanted and can only be made anew."""
        return outdated_fields(*self.rest, _rest(whole))


class EditionCache:
    """Of one application. An edition is made anew when the policy or the template is another object."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[OverridePolicySpec, Template, ExpectedPod]] = {}

    def of(
        self, spec: OverridePolicySpec, maker: str, template: Template, groups: list[str], *, privileged: bool,
        bases: Bases = (), revert: bool = False,
    ) -> ExpectedPod:  # fmt: skip
        """The edition of the template (that `maker` has) for the groups; to `revert` it, the template itself."""
        at = ("revert" if revert else "apply", maker, *groups)
        known = self._known.get(at)
        if known is None or known[0] is not spec or known[1] is not template:
            known = self._known[at] = (spec, template, self._edited(spec, template, groups, privileged, bases, revert))
        return known[2]

    def _edited(
        self, spec: OverridePolicySpec, template: Template, groups: list[str], privileged: bool, bases: Bases,
        revert: bool,
    ) -> ExpectedPod:  # fmt: skip
        try:
            made = edition(spec, groups, template, privileged=privileged, bases=bases).template
        except OverrideError as fault:
            return ExpectedPod(fault=str(fault))
        before, after = (made, template) if revert else (template, made)
        images = {c["name"]: c.get("image", "") for part in _LISTS for c in after.get("spec", {}).get(part) or []}
        rest = (_rest(before), _rest(after))
        return ExpectedPod(images, _touched(before, after), rest, needs_replacement=rest[0] != rest[1])


def _touched(before: Template, after: Template) -> dict[str, dict[str, str | None]]:
    """Labels and annotations that the edition has otherwise than the template."""
    found = {}
    for part in ("labels", "annotations"):
        old, new = ((side.get("metadata") or {}).get(part) or {} for side in (before, after))
        found[part] = {name: new.get(name) for name in (*old, *new) if old.get(name) != new.get(name)}
    return found


def _rest(template: Template) -> Template:
    """The spec without its images: what cannot change on a running pod."""
    spec: Template = deepcopy(template.get("spec") or {})
    for part in _LISTS:
        for container in spec.get(part) or []:
            container.pop("image", None)
    return spec
