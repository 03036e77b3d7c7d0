"""What a pod should look like: the template it was created from, with the edition of its node group.

A ReplicaSet and a Job keep the template of their pods. A StatefulSet and a DaemonSet change their template in place and
keep the old templates as ControllerRevisions, whose hash their pods carry. With --revert-on-unbind the pods get their
template back when the application requires no OverridePolicy any more. By then the policy may be deleted and another
process may be the leader, so the application carries the policy's name and spec until its last pod is reverted.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.groupctl.controllers.object_cache import ObjectCache
from muster.groups.applications import DOMAIN, owner_ref, template_index, template_path, template_values
from muster.groups.override import OverrideError, edition, outdated_fields
from muster.groups.override.policy import Bases
from muster.model.batch import ControllerRevision, DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.groups import OverridePolicySpec
from muster.model.kinds import plain
from muster.model.meta import Object, controller
from muster.model.meta import key as key_of
from muster.store import NotFound, Store

REVISION = "controller-revision-hash"

Template = dict[str, Any]


def template_id(app: Object, pod: Pod) -> tuple[str, str, int | None]:
    """The owner, its revision and the position of the template: pods of an application with the same id were created
    from the same template."""
    owner = controller(pod.metadata)
    name = "" if owner is None else f"{owner.kind}/{owner.name}"
    return name, pod.metadata.labels.get(REVISION, ""), template_index(app, pod)


class TemplateRevisions:
    """Finds the template of a pod. Templates are read from the store once, and again when their owner changes."""

    def __init__(self, store: Store, cache: ObjectCache) -> None:
        self._store = store
        self._cache = cache
        self._read: dict[tuple[str, str], tuple[tuple[str, int], list[Template]]] = {}

    def of(self, app: Object, pod: Pod) -> tuple[str, Template] | None:
        """The template of the pod, and the name of its owner; None: the template is not known, or the pod has none."""
        if isinstance(app, Pod):
            return None  # a pod by itself has no template to compute an edition from a second time
        owner = owner_ref(pod)
        maker = None if owner is None else self._cache.lookup(*owner)
        maker = app if maker is None else maker
        name = f"{type(maker).__name__}/{maker.metadata.name}"
        if isinstance(maker, StatefulSet | DaemonSet):
            mark = pod.metadata.labels.get(REVISION, "")
            known = self._revision(maker, mark)
            if known is not None:
                return f"{name}@{mark}", known
            current = maker.status.update_revision if isinstance(maker, StatefulSet) else ""
            if mark not in ("", current):
                return None  # of an unknown old template: the roll-out will replace the pod
        templates, index = self._current(maker), template_index(maker, pod)
        if index is None or index >= len(templates):
            return None
        return f"{name}/{index}" if index else name, templates[index]

    def forget(self, gone: Object) -> None:
        self._read.pop((type(gone).__name__, key_of(gone)), None)

    def _revision(self, maker: StatefulSet | DaemonSet, mark: str) -> Template | None:
        # Kubernetes: a StatefulSet's pods carry the name of the revision, a DaemonSet's only the end of it.
        name = mark if isinstance(maker, StatefulSet) else f"{maker.metadata.name}-{mark}"
        key = f"{maker.metadata.namespace or 'default'}/{name}"
        found = self._cache.of(ControllerRevision).get(key) if mark else None
        if found is None:
            return None
        at, version = ("ControllerRevision", key), (found.metadata.uid, 0)
        if at not in self._read or self._read[at][0] != version:
            templates = template_values(template_path(type(maker)), found.data)
            own = [{field: v for field, v in template.items() if field != "$patch"} for template in templates]
            self._read[at] = (version, own)
        return next(iter(self._read[at][1]), None)

    def _current(self, maker: Object) -> list[Template]:
        at = (type(maker).__name__, key_of(maker))
        version = (maker.metadata.uid, maker.metadata.generation)
        if at not in self._read or self._read[at][0] != version:
            # The spec of a configured kind is kept as a plain value.
            custom = isinstance(maker, ConfiguredApplication)
            try:
                whole = plain(maker) if custom else self._store.whole(type(maker), key_of(maker))
            except NotFound:
                return []  # deleted by now: the watch will report it
            self._read[at] = (version, template_values(template_path(type(maker)), whole))
        return self._read[at][1]


_LISTS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class ExpectedPod:
    """The expected fields of a pod: images and metadata, which can change while it runs, and the rest."""

    images: dict[str, str] = field(default_factory=dict)  # container → image
    # labels, annotations → those that the rules change; None: removed
    metadata: dict[str, dict[str, str | None]] = field(default_factory=dict)
    rest: tuple[Template, Template] = field(default_factory=lambda: ({}, {}))  # in the template, as expected
    needs_replacement: bool = False  # does the edition change fields that cannot change in a running pod?
    fault: str = ""  # why the edition cannot be computed

    def images_to_change(self, pod: Pod) -> dict[str, str]:
        """Container → its expected image, where the pod has another."""
        has = {c.name: c.image for c in (*pod.spec.containers, *pod.spec.init_containers)}
        return {name: image for name, image in self.images.items() if image and has.get(name, image) != image}

    def metadata_to_change(self, pod: Pod) -> Template:
        """The labels and annotations that differ, as a merge patch."""
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
        """The fields in which the pod (a plain value) differs and that only a replacement can change."""
        return outdated_fields(*self.rest, _rest(whole))


class EditionCache:
    """The editions of one application. An edition is computed again when the policy or the template changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[OverridePolicySpec, Template, ExpectedPod]] = {}

    def of(
        self, spec: OverridePolicySpec, maker: str, template: Template, groups: list[str], *, privileged: bool,
        bases: Bases = (), revert: bool = False,
    ) -> ExpectedPod:  # fmt: skip
        """The expected pod for the groups, from the template of `maker`; with `revert`, the template itself."""
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
    """The labels and annotations in which the edition differs from the template."""
    found = {}
    for part in ("labels", "annotations"):
        old, new = ((side.get("metadata") or {}).get(part) or {} for side in (before, after))
        found[part] = {name: new.get(name) for name in (*old, *new) if old.get(name) != new.get(name)}
    return found


def _rest(template: Template) -> Template:
    """The spec without its images: what cannot change in a running pod."""
    spec: Template = deepcopy(template.get("spec") or {})
    for part in _LISTS:
        for container in spec.get(part) or []:
            container.pop("image", None)
    return spec


MARK = f"{DOMAIN}/overridden-by"
# All annotations of an object together may have 256 KiB. Above this size the policy must exist when it is reverted.
MAX_RECORD_BYTES = 64 * 1024


class _Made(msgspec.Struct):
    policy: str
    spec: OverridePolicySpec | None = None


def recorded_override(app: Object) -> tuple[str, OverridePolicySpec] | None:
    """The name of the recorded policy, and its spec at that time."""
    try:
        made = msgspec.json.decode(app.metadata.annotations.get(MARK, ""), type=_Made)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if made.spec is None else (made.policy, made.spec)


def record_override(store: Store, app: Object, policy: str, spec: OverridePolicySpec | None) -> bool:
    """Records the policy on the application (empty: removes the record); whether anything was written."""
    text = None
    if policy:
        text = msgspec.json.encode(_Made(policy, spec)).decode()
        if len(text) > MAX_RECORD_BYTES:
            text = msgspec.json.encode(_Made(policy)).decode()
    if app.metadata.annotations.get(MARK) == text:
        return False
    try:
        store.patch(type(app), key_of(app), {"metadata": {"annotations": {MARK: text}}})
    except NotFound:
        return False
    return True
