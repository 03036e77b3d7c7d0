"""What a pod was made of: the template of its own revision, with all its fields.

A ReplicaSet and a Job keep the template their pods came from. A StatefulSet and a DaemonSet change theirs in place, and
keep the old ones as ControllerRevisions, whose hash their pods carry.
"""

from __future__ import annotations

from typing import Any

from muster.groupctl.controllers.object_cache import ObjectCache
from muster.groups.applications import owner_ref, template_value
from muster.model.batch import ControllerRevision, DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.kinds import plain
from muster.model.meta import Object, controller
from muster.model.meta import key as key_of
from muster.store import NotFound, Store

REVISION = "controller-revision-hash"

Template = dict[str, Any]


def template_id(pod: Pod) -> tuple[str, str]:
    """Pods of an application with the same mark were made of the same template: their owner, and its revision."""
    owner = controller(pod.metadata)
    return "" if owner is None else f"{owner.kind}/{owner.name}", pod.metadata.labels.get(REVISION, "")


class TemplateRevisions:
    """Templates are read whole from the store when they are first asked for, and again when their owner changes."""

    def __init__(self, store: Store, cache: ObjectCache) -> None:
        self._store = store
        self._cache = cache
        self._read: dict[tuple[str, str], tuple[tuple[str, int], Template | None]] = {}

    def of(self, app: Object, pod: Pod) -> tuple[str, Template] | None:
        """The template, and whose it is; None: nobody can say, or the pod has none."""
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
                return None  # of a template that is not known any more: the roll-out's business
        template = self._current(maker)
        return None if template is None else (name, template)

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
            template = template_value(type(maker), found.data)
            own = None if template is None else {field: v for field, v in template.items() if field != "$patch"}
            self._read[at] = (version, own)
        return self._read[at][1]

    def _current(self, maker: Object) -> Template | None:
        at = (type(maker).__name__, key_of(maker))
        version = (maker.metadata.uid, maker.metadata.generation)
        if at not in self._read or self._read[at][0] != version:
            # The spec of a kind that is configured is kept as it is written.
            custom = isinstance(maker, CustomApplication)
            try:
                whole = plain(maker) if custom else self._store.whole(type(maker), key_of(maker))
            except NotFound:
                return None  # gone by now: the watch will say so
            self._read[at] = (version, template_value(type(maker), whole))
        return self._read[at][1]
