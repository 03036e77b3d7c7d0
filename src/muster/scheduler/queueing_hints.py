"""Queueing hints, as in kube-scheduler: which changes of the cluster can make a pending pod schedulable.

A heartbeat cannot, a freed node can. A cycle starts at once for a change that may give a pending pod a node, and a
little later for a change that affects only counts and statuses.
"""

from __future__ import annotations

from enum import IntEnum

from muster.engine.core.jobs import Status
from muster.engine.core.reading import status_of
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.meta import Object, ObjectMeta, spec_of
from muster.model.native import NativeObject
from muster.model.scheduling import PodGroup, Queue
from muster.scheduler.journal import JOURNAL

_APPLICATIONS: tuple[type[Object], ...] = (*APPLICATION_KINDS, CustomApplication)
_ENDED = (Status.SUCCEEDED, Status.FAILED)


class Hint(IntEnum):
    """How soon a change needs a cycle."""

    IGNORE = 0
    SCHEDULE_SOON = 1
    SCHEDULE_NOW = 2


def queueing_hint(old: Object | None, new: Object | None) -> Hint:
    """Returns the hint for a change from `old` (None: created) to `new` (None: deleted)."""
    if isinstance(old, Pod) or isinstance(new, Pod):
        return _pod_hint(old if isinstance(old, Pod) else None, new if isinstance(new, Pod) else None)
    if old is None or new is None:
        return Hint.SCHEDULE_NOW
    if isinstance(old, Node) and isinstance(new, Node):
        return Hint.SCHEDULE_NOW if _scheduling_fields(old) != _scheduling_fields(new) else Hint.IGNORE
    if isinstance(old, PodGroup) and isinstance(new, PodGroup):
        return _changed((old.spec, old.status.phase), (new.spec, new.status.phase), old, new)
    if isinstance(old, Queue) and isinstance(new, Queue):
        return _changed((old.spec, old.status.state), (new.spec, new.status.state), old, new)
    if isinstance(old, (*_APPLICATIONS, NativeObject)) and isinstance(new, (*_APPLICATIONS, NativeObject)):
        return _changed(spec_of(old), spec_of(new), old, new)
    return Hint.SCHEDULE_NOW


def _pod_hint(old: Pod | None, new: Pod | None) -> Hint:
    if new is None:
        assert old is not None
        return Hint.SCHEDULE_SOON if status_of(old) in _ENDED else Hint.SCHEDULE_NOW
    if old is None or old.metadata.uid != new.metadata.uid:
        return Hint.SCHEDULE_NOW if status_of(new) == Status.PENDING else Hint.SCHEDULE_SOON
    was, is_ = status_of(old), status_of(new)
    if was != is_:
        frees = is_ == Status.RELEASING or is_ in _ENDED or is_ == Status.PENDING
        return Hint.SCHEDULE_NOW if frees else Hint.SCHEDULE_SOON
    if was == Status.PENDING:
        return _changed(old.spec, new.spec, old, new)
    return Hint.IGNORE if _metadata(old.metadata) == _metadata(new.metadata) else Hint.SCHEDULE_SOON


def _changed(before: object, after: object, old: Object, new: Object) -> Hint:
    """Returns whether these fields, the labels or the annotations differ, as a hint."""
    same = before == after and _metadata(old.metadata) == _metadata(new.metadata)
    return Hint.IGNORE if same else Hint.SCHEDULE_NOW


def _metadata(meta: ObjectMeta) -> tuple[dict[str, str], dict[str, str]]:
    """Returns labels and annotations, without the journal, which only the scheduler writes."""
    annotations = meta.annotations
    if JOURNAL in annotations:
        annotations = {key: value for key, value in annotations.items() if key != JOURNAL}
    return meta.labels, annotations


def _scheduling_fields(node: Node) -> tuple[object, ...]:
    """Returns what a plugin may read of a node; the times of its heartbeats are not part of it."""
    status = node.status
    return (
        node.metadata.uid, _metadata(node.metadata), node.spec, status.allocatable, status.capacity, status.images,
        [(c.type, c.status) for c in status.conditions], status.volumes_attached, status.volumes_in_use,
        node.metadata.deletion_timestamp,
    )  # fmt: skip
