"""Decides whether a pod is visible to its edge node or held back, by the binding state of its application and by its
edition.

Only pods that were never sent to their node are held back: otherwise a change of a label or a policy would delete a
running pod at the edge. With `strict`, a pod is held back whenever its application is not bound.

A pod that has started was sent, by whichever replica: its status shows it after every restart. Pods that were sent and
have not started yet are remembered here.

A pod must also match the edition of its node group, which is computed from the template it was created from. The rule
is that of the controllers: the same editions, compared with the pod in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from muster.groupctl.controllers.editions import EditionCache, ExpectedPod
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import ObjectTables, OwnerResolver
from muster.groups.applications import (
    Application,
    BindingState,
    OwnerLoop,
    PolicyLabels,
    binding_state,
    hold_reason,
    owner_ref,
    template_index,
    template_path,
    template_values,
)
from muster.groups.assignment import EDITION, edition_name
from muster.model.batch import DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.groups import OverridePolicy
from muster.model.kinds import decode_json, plain
from muster.model.meta import Object, controller, key
from muster.store import NotFound

MAX_REMEMBERED_PODS = 100_000

FetchPod = Callable[[str], Awaitable[bytes | None]]
"""Takes ns/name; returns the pod with all its fields in JSON, None if it does not exist."""


class PodVisibility:
    """Returns why pods are held back, and remembers the pods that were sent."""

    def __init__(
        self,
        owners: OwnerResolver,
        editions: EditionCheck | None = None,
        fetch_pod: FetchPod | None = None,
        *,
        strict: bool = False,
    ) -> None:
        """`editions`: pods that differ from their group's edition are held, too; `fetch_pod` reads them to compare."""
        self._owners = owners
        self._editions = editions
        self._fetch_pod = fetch_pod
        self._sent = None if strict else SentPods()

    async def hold_reason(self, pod: Pod, text: bytes | None = None) -> str | None:
        """Returns why the pod is held back; None if it is sent. Raises ApiError if its owners cannot be read.

        `text`: the whole pod in JSON, if it is available.
        """
        if self._sent is not None and pod.metadata.uid in self._sent:
            return None
        why = await self._hold_reason(pod, text)
        return None if why is not None and await self._was_sent(pod, text) else why

    def record_sent(self, pod: Pod, text: bytes | None) -> None:
        """Records that the pod is about to be sent to a client. A pod that has started need not be remembered."""
        status = pod.status
        started = text is not None and (status.start_time or status.phase not in ("", "Pending"))
        if self._sent is not None and not started:
            self._sent.add(pod.metadata.uid)

    async def _hold_reason(self, pod: Pod, text: bytes | None) -> str | None:
        if controller(pod.metadata) is None and self._editions is None:
            return hold_reason(pod.metadata.labels)
        try:
            application = await self._owners.application_of(pod)
        except OwnerLoop:
            return None  # it belongs to no application, so no policy is required
        why = hold_reason(application.labels)
        if why is not None:
            return f"{application}: {why}"
        if self._editions is None or not self._editions.apply_to(application):
            return None
        if text is None and self._fetch_pod is not None:
            text = await self._fetch_pod(key(pod))
            found = None if text is None else decode_json(Pod, text)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return None
            pod = found
        return None if text is None else await self._editions.outdated(application, pod, text)

    async def _was_sent(self, pod: Pod, text: bytes | None) -> bool:
        """Returns whether the status shows that the pod was sent; if only metadata is available, reads it once per
        version."""
        if self._sent is None:
            return False
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if text is not None:
            return has_started(text, uid)  # not remembered: a caller of POST /gate can claim any status
        if self._fetch_pod is None or self._sent.is_unstarted(uid, version):
            return False
        text = await self._fetch_pod(key(pod))
        if text is None:
            return False  # it was deleted
        if has_started(text, uid):
            self._sent.add(uid)
            return True
        self._sent.record_unstarted(uid, version)
        return False


class _Status(Struct, rename="camel"):
    phase: str | None = None
    start_time: str | None = None
    container_statuses: list[msgspec.Raw] | None = None
    init_container_statuses: list[msgspec.Raw] | None = None
    ephemeral_container_statuses: list[msgspec.Raw] | None = None


class _Metadata(Struct):
    uid: str = ""


class _Pod(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status | None = None


_pod = msgspec.json.Decoder(_Pod)


def has_started(text: bytes, uid: str) -> bool:
    """Whether a kubelet has accepted the pod: a start time, a container status, or a phase other than Pending.

    `text` is the pod in JSON; a pod of the same name with another UID is another pod.
    """
    try:
        pod = _pod.decode(text)
    except msgspec.DecodeError:
        return False
    if pod.metadata.uid != uid:
        return False
    status = pod.status or _Status()
    containers = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return bool(status.start_time) or any(containers) or (status.phase or "Pending") != "Pending"


class SentPods:
    """The pods that were sent, by UID. Beyond MAX_REMEMBERED_PODS the oldest are forgotten: by then they have started
    or are gone."""

    def __init__(self, limit: int = MAX_REMEMBERED_PODS) -> None:
        self._limit = limit
        self._sent: dict[str, None] = {}
        self._unstarted: dict[str, str] = {}  # UID → the version at which it was seen not to have started

    def __contains__(self, uid: str) -> bool:
        return uid in self._sent

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, uid: str) -> None:
        if uid:
            self._sent.pop(uid, None)
            self._sent[uid] = None
            self._unstarted.pop(uid, None)
            _drop_oldest(self._sent, self._limit)

    def is_unstarted(self, uid: str, version: str) -> bool:
        """Returns whether the pod is known not to have started at this version."""
        return bool(version) and self._unstarted.get(uid) == version

    def record_unstarted(self, uid: str, version: str) -> None:
        self._unstarted.pop(uid, None)
        self._unstarted[uid] = version
        _drop_oldest(self._unstarted, self._limit)


def _drop_oldest(table: dict[str, str] | dict[str, None], limit: int) -> None:
    while len(table) > limit:
        del table[next(iter(table))]


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
