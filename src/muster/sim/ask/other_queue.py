"""The open queues that would take the job now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from muster.engine.core.jobs import Queue
from muster.engine.core.podgroups import GROUP, QUEUE_NAME
from muster.engine.core.state import Objects, State
from muster.groups.applications import templates_of
from muster.model import volcano_job
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.kinds import decode_as, plain
from muster.model.meta import Object
from muster.model.scheduling import PodGroup
from muster.sim.ask.answer import OTHER_QUEUE, Proposal, patch_of
from muster.sim.ask.trial import Asked, Tables

__all__ = ["other_queue"]

MAX_QUEUES = 100  # that are tried; the first by name


def other_queue(asked: Asked, state: State, current: set[str]) -> Iterator[Proposal]:
    """Yields a change for each open queue without children in which the job runs now."""
    parents = {queue.parent for queue in state.queues.values()}
    able = [queue for name, queue in sorted(state.queues.items()) if name not in current | parents and _is_open(queue)]
    for queue in able[:MAX_QUEUES]:
        changed = in_queue(asked.job, queue.name)
        if asked.with_job(changed).try_now().runs:
            patches = [
                _patch(asked.job[kind][key], new, queue.name)
                for kind, of_kind in changed.items()
                for key, new in of_kind.items()
                if new is not asked.job[kind][key]
            ]
            text = f"Use queue {queue.name} instead of {' and '.join(sorted(current))}."
            yield Proposal(OTHER_QUEUE, text, {"from": sorted(current), "to": queue.name}, tuple(patches))


def _patch(old: Object, new: Object, queue: str) -> dict[str, Any]:
    patch = patch_of(old, new)
    # The model leaves out the name of the queue `default`, which is its default.
    return {**patch, "spec": {"queue": queue}} if patch.get("spec") == {"queue": None} else patch


def _is_open(queue: Queue) -> bool:
    return queue.open and not queue.unused


def in_queue(job: Objects, name: str) -> Tables:
    """Returns the job's objects in another queue: the field or the annotation that names the queue is set."""
    groups = set(job.get("PodGroup", {}))
    return {kind: {key: _named(obj, name, groups) for key, obj in of_kind.items()} for kind, of_kind in job.items()}


def _named(obj: Object, queue: str, groups: set[str]) -> Object:
    match obj:
        case PodGroup() | volcano_job.Job():
            return replace(obj, spec=replace(obj.spec, queue=queue))
        case Pod():
            named = obj.metadata.annotations.get(GROUP)
            return obj if named and f"{obj.metadata.namespace}/{named}" in groups else _annotated(obj, queue)
        case CustomApplication():
            return _annotated(obj, queue)
    if not templates_of(obj):
        return obj
    copy = decode_as(type(obj), plain(obj))
    for template, old in zip(templates_of(copy), templates_of(obj), strict=True):
        template.keep(old.written)
        template.metadata.annotations = {**template.metadata.annotations, QUEUE_NAME: queue}
    return copy


def _annotated(obj: Object, queue: str) -> Object:
    notes = {**obj.metadata.annotations, QUEUE_NAME: queue}
    return replace(obj, metadata=replace(obj.metadata, annotations=notes))
