"""Reads the timestamps of an object: its creation, its deletion, its changes of state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.model import batch
from muster.model.core import Node, Pod
from muster.model.meta import Condition, Object, ObjectMeta, seconds


def timestamps(obj: Object) -> Iterator[tuple[str, str]]:
    """Yields the path and the value of every timestamp that the object has."""
    yield from of_metadata(obj.metadata)
    status = getattr(obj, "status", None)
    for i, condition in enumerate(getattr(status, "conditions", ())):
        yield from _condition(condition, f"status.conditions[{i}]")
    if isinstance(obj, Pod):
        if obj.status.start_time is not None:
            yield "status.startTime", obj.status.start_time
    elif isinstance(obj, Node):
        for i, taint in enumerate(obj.spec.taints):
            if taint.time_added is not None:
                yield f"spec.taints[{i}].timeAdded", taint.time_added
    elif isinstance(obj, batch.Job):
        yield from _given(("startTime", obj.status.start_time), ("completionTime", obj.status.completion_time))
    elif isinstance(obj, batch.CronJob):
        yield from _given(
            ("lastScheduleTime", obj.status.last_schedule_time),
            ("lastSuccessfulTime", obj.status.last_successful_time),
        )


def of_metadata(meta: ObjectMeta) -> Iterator[tuple[str, str]]:
    """Yields the path and the value of the timestamps in an object's metadata."""
    if meta.creation_timestamp is not None:
        yield "metadata.creationTimestamp", meta.creation_timestamp
    if meta.deletion_timestamp is not None:
        yield "metadata.deletionTimestamp", meta.deletion_timestamp


def _given(*fields: tuple[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, text in fields:
        if text is not None:
            yield f"status.{name}", text


def _condition(condition: Condition, path: str) -> Iterator[tuple[str, str]]:
    for name, text in (
        ("lastTransitionTime", condition.last_transition_time),
        ("lastProbeTime", condition.last_probe_time),
        ("lastHeartbeatTime", condition.last_heartbeat_time),
    ):
        if text is not None:
            yield f"{path}.{name}", text


def latest(objects: Iterable[Object]) -> float:
    """Returns the latest timestamp of the objects, at which a simulated clock starts; 0 if they have none."""
    return max((seconds(text) for obj in objects for _, text in timestamps(obj)), default=0.0)
