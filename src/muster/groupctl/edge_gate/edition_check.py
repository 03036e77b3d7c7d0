"""Checks whether a pod matches the edition of its node group, which is computed from the template it was created from.

The rule is that of the controllers: the same editions, compared with the pod in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from muster.groupctl.controllers.editions import EditionCache, ExpectedPod
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import ObjectTables
from muster.groups.applications import Application, owner_ref, template_index, template_path, template_values
from muster.groups.assignment import EDITION, edition_name
from muster.groups.binding import BindingState, PolicyLabels, binding_state
from muster.model.batch import DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.groups import OverridePolicy
from muster.model.kinds import plain
from muster.model.meta import Object, key
from muster.store import NotFound

Plain = dict[str, Any]
FetchObject = Callable[[type[Object], str], Awaitable[Plain]]
"""Takes a kind and a key; returns the object with all its fields, raises NotFound."""

MAX_TEMPLATES = 10_000  # templates that are kept
_REVISION = "controller-revision-hash"
_GENERATION = "pod-template-generation"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class EditionCheck:
    """Compares pods with the edition of their node group."""

    def __init__(
        self,
        tables: ObjectTables,
        grouped: GroupingCache,
        fetch_object: FetchObject,
        *,
        privileged: bool = False,
    ) -> None:
        self._tables = tables
        self._grouping_cache = grouped
        self._fetch_object = fetch_object
        self._privileged = privileged
        self._edition_cache = EditionCache()
        self._templates: dict[str, tuple[tuple[str, int], list[Plain]]] = {}

    def apply_to(self, application: Application) -> bool:
        """Returns whether the application is bound to an OverridePolicy."""
        return binding_state(application.labels, PolicyLabels.OVERRIDE) == BindingState.BOUND

    async def outdated(self, application: Application, pod: Pod, text: bytes) -> str | None:
        """Returns how the pod differs from its group's edition; None if it does not or if that is unknown.

        `text` is the pod in JSON.
        """
        if not pod.spec.node_name:
            return None
        name = application.labels[PolicyLabels.OVERRIDE.binding]
        groups = self._groups(application, pod.spec.node_name)
        maker = self._maker(application, pod)
        if not groups or maker is None:
            return None
        index = template_index(maker, pod)
        template = None if index is None else await self._template(maker, index)
        # Read after the await, so that policy and template are of the same moment.
        policy = self._grouping_cache.of(OverridePolicy).get(f"{application.namespace}/{name}")
        if policy is None or template is None:
            return None
        at, bases = f"{type(maker).__name__}/{key(maker)}/{index}", (template_path(type(maker)),)
        wanted = self._edition_cache.of(policy.spec, at, template, groups, privileged=self._privileged, bases=bases)
        if wanted.fault:
            return None  # the policy's status reports it; there is no edition to wait for
        made_so = pod.metadata.annotations.get(EDITION) == edition_name(policy, groups[0])
        wrong = _different(wanted, pod, text, made_so=made_so)
        return f"{wrong} is not that of node group {groups[0]} by OverridePolicy {name}" if wrong else None

    def _groups(self, application: Application, node: str) -> list[str]:
        return self._grouping_cache.grouping.edition_groups(application.labels, application.namespace)(node)

    def _maker(self, application: Application, pod: Pod) -> Object | None:
        """Returns the object whose template the pod was created from; None if it is gone."""
        owner = owner_ref(pod)
        if owner is None:
            return None
        found = self._tables.get(owner[0], {}).get(owner[1])
        maker = application.object if found is None else found
        return maker if _is_of_this_revision(maker, pod) else None

    async def _template(self, maker: Object, index: int) -> Plain | None:
        """Returns a template of the maker with all its fields; reads it again when it has changed."""
        at = f"{type(maker).__name__}/{key(maker)}"
        version = (maker.metadata.uid, maker.metadata.generation)
        known = self._templates.get(at)
        if known is None or known[0] != version:
            try:
                custom = isinstance(maker, ConfiguredApplication)  # its spec is kept as it is written
                whole = plain(maker) if custom else await self._fetch_object(type(maker), key(maker))
            except NotFound:
                return None
            if len(self._templates) > MAX_TEMPLATES:
                self._templates.clear()
                self._edition_cache = EditionCache()
            known = self._templates[at] = (version, template_values(template_path(type(maker)), whole))
        return known[1][index] if index < len(known[1]) else None


def _is_of_this_revision(maker: Object, pod: Pod) -> bool:
    """Returns whether the pod is of the current revision; a rollout replaces pods of earlier revisions."""
    labels = pod.metadata.labels
    if isinstance(maker, StatefulSet):
        return labels.get(_REVISION, "") == maker.status.update_revision
    if isinstance(maker, DaemonSet):
        return labels.get(_GENERATION) == maker.metadata.annotations.get(_TEMPLATE_GENERATION)
    return True


def _different(wanted: ExpectedPod, pod: Pod, text: bytes, *, made_so: bool) -> str:
    """Returns the first field in which the pod differs from its expected edition."""
    for name in wanted.images_to_change(pod):
        return f"image of container {name}"
    for field, names in wanted.metadata_to_change(pod).items():
        return f"{field[:-1]} {min(names)}"
    if wanted.needs_replacement and not made_so:
        for path in wanted.immutable_changes(msgspec.json.decode(text)):
            return f"spec{path}"
    return ""
