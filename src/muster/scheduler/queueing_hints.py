"""Which changes of the cluster bear on the next decision: a heartbeat does not, a freed node does.

A cycle starts at once for what may give a pending pod a node, and a little later for what only changes counts.
"""

from __future__ import annotations

from enum import IntEnum

from muster.engine.core.jobs import Status
from muster.engine.core.reading import status_of
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.meta import Object, ObjectMeta, spec_of
from muster.model.scheduling import PodGroup, Queue
from muster.scheduler.journal import JOURNAL

_APPLICATIONS: tuple[type[Object], ...] = (*APPLICATION_KINDS, CustomApplication)
_ENDED = (Status.SUCCEEDED, Status.FAILED)


class Hint(IntEnum):
    """How soon a change asks for a cycle."""

    IGNORE = 0
    SCHEDULE_SOON = 1
    SCHEDULE_NOW = 2


def queueing_hint(old: Object | None, new: Object | None) -> Hint:
    """What a change from `old` (None: was not there) to `new` (None: is gone) means for the next cycle."""
    if isinstance(old, Pod) or isinstance(new, Pod):
        return _of_pod(old if isinstance(old, Pod) else None, new if isinstance(new, Pod) else None)
    if old is None or new is None:
        return Hint.SCHEDULE_NOW
    if isinstance(old, Node) and isinstance(new, Node):
        return Hint.SCHEDULE_NOW if _node(old) != _node(new) else Hint.IGNORE
    if isinstance(old, PodGroup) and isinstance(new, PodGroup):
        same = (old.spec, old.status.phase, _notes(old.metadata)) == (new.spec, new.status.phase, _notes(new.metadata))
        return Hint.IGNORE if same else Hint.SCHEDULE_NOW
    if isinstance(old, Queue) and isinstance(new, Queue):
        same = (old.spec, old.status.state, _notes(old.metadata)) == (new.spec, new.status.state, _notes(new.metadata))
        return Hint.IGNORE if same else Hint.SCHEDULE_NOW
    if isinstance(old, _APPLICATIONS) and isinstance(new, _APPLICATIONS):
        same = (spec_of(old), _notes(old.metadata)) == (spec_of(new), _notes(new.metadata))
        return Hint.IGNORE if same else Hint.SCHEDULE_NOW
    return Hint.SCHEDULE_NOW


def _of_pod(old: Pod | None, new: Pod | None) -> Hint:
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
        same = (old.spec, _notes(old.metadata)) == (new.spec, _notes(new.metadata))
        return Hint.IGNORE if same else Hint.SCHEDULE_NOW
    return Hint.IGNORE if _notes(old.metadata) == _notes(new.metadata) else Hint.SCHEDULE_SOON


def _notes(meta: ObjectMeta) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations, without the journal, which only we write."""
    notes = meta.annotations
    if JOURNAL in notes:
        notes = {key: value for key, value in notes.items() if key != JOURNAL}
    return meta.labels, notes


def _node(node: Node) -> tuple[object, ...]:
    """What a node says that a plugin may read; the times of its heartbeats are not among it."""
    status = node.status
    return (
        node.metadata.uid, _notes(node.metadata), node.spec, status.allocatable, status.capacity, status.images,
        [(c.type, c.status) for c in status.conditions], status.volumes_attached, status.volumes_in_use,
        node.metadata.deletion_timestamp,
    )  # fmt: skip
