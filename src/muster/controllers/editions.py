"""The editions of an application's templates by node group, as far as a running pod can follow them; made once each."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from muster.groups.override import OverrideError, edition
from muster.model.core import Pod, PodTemplateSpec
from muster.model.groups import OverridePolicySpec

Template = dict[str, Any]
_LISTS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pod of an edition should have of what may change while it runs."""

    images: dict[str, str]  # container → image
    metadata: dict[str, dict[str, str | None]]  # labels, annotations → those the rules touch; None: taken away
    beyond: bool = False  # the edition differs in more than that
    fault: str = ""  # why it cannot be made

    def images_to_change(self, pod: Pod) -> dict[str, str]:
        """Container → the image it should have, where it has another."""
        has = {c.name: c.image for c in (*pod.spec.containers, *pod.spec.init_containers)}
        return {name: image for name, image in self.images.items() if image and has.get(name, image) != image}

    def metadata_to_change(self, pod: Pod) -> Template:
        """Labels and annotations that are not as they should be, as a merge patch."""
        changes: Template = {}
        for field, has in (("labels", pod.metadata.labels), ("annotations", pod.metadata.annotations)):
            wrong = {name: value for name, value in self.metadata[field].items() if has.get(name) != value}
            if wrong:
                changes[field] = wrong
        return changes


class Editions:
    """Of one application. An edition is made anew when the policy or the template is another object."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[OverridePolicySpec, PodTemplateSpec, Wanted]] = {}

    def of(
        self, spec: OverridePolicySpec, maker: str, template: PodTemplateSpec, groups: list[str], privileged: bool
    ) -> Wanted:
        """The edition of the template (that `maker` has) for the groups."""
        at = (maker, *groups)
        known = self._known.get(at)
        if known is None or known[0] is not spec or known[1] is not template:
            known = self._known[at] = (spec, template, _made(spec, to_builtins(template), groups, privileged))
        return known[2]


def _made(spec: OverridePolicySpec, template: Template, groups: list[str], privileged: bool) -> Wanted:
    try:
        made = edition(spec, groups, template, privileged=privileged).template
    except OverrideError as fault:
        return Wanted({}, {"labels": {}, "annotations": {}}, fault=str(fault))
    images = {c["name"]: c.get("image", "") for field in _LISTS for c in made.get("spec", {}).get(field, [])}
    return Wanted(images, _touched(template, made), beyond=_rest(made) != _rest(template))


def _touched(template: Template, made: Template) -> dict[str, dict[str, str | None]]:
    """Labels and annotations that the edition has otherwise than the template."""
    found = {}
    for field in ("labels", "annotations"):
        old, new = (side.get("metadata", {}).get(field, {}) for side in (template, made))
        found[field] = {name: new.get(name) for name in (*old, *new) if old.get(name) != new.get(name)}
    return found


def _rest(template: Template) -> Template:
    """The spec without its images: what cannot change on a running pod."""
    spec: Template = deepcopy(template.get("spec", {}))
    for field in _LISTS:
        for container in spec.get(field, []):
            container.pop("image", None)
    return spec
