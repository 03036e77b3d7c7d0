"""The steps of a pod's life cycle. Each returns a new pod: objects in a store are never changed in place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from muster.model.core import Container, Pod
from muster.model.meta import Condition, timestamp
from muster.model.pod_states import eviction_annotations

# Kubernetes: the default of terminationGracePeriodSeconds.
DEFAULT_GRACE_S = 30


def bound(pod: Pod, node: str, annotations: Mapping[str, str] | None, now: float) -> Pod:
    """Returns the pod with its node, as after a Binding."""
    status = pod.status
    conditions = _merged(status.conditions, _scheduled(now))
    pod = replace(
        pod,
        spec=replace(pod.spec, node_name=node),
        status=replace(status, conditions=conditions, nominated_node_name=""),
    )
    if annotations:
        pod.metadata = replace(pod.metadata, annotations={**pod.metadata.annotations, **annotations})
    return pod


def running(pod: Pod, now: float) -> Pod:
    """Returns the pod as its kubelet reports it after the start."""
    status = pod.status
    conditions = _merged(status.conditions, _started(now))
    started = status.start_time or timestamp(now)
    return replace(pod, status=replace(status, phase="Running", conditions=conditions, start_time=started))


def succeeded(pod: Pod, now: float) -> Pod:
    """Returns the pod after its containers have succeeded."""
    conditions = _merged(pod.status.conditions, _ended(now))
    return replace(pod, status=replace(pod.status, phase="Succeeded", conditions=conditions))


def with_images(pod: Pod, images: Mapping[str, str]) -> Pod:
    """Returns the pod with other images for the named containers."""

    def changed(containers: list[Container]) -> list[Container]:
        return [replace(c, image=images[c.name]) if c.name in images else c for c in containers]

    spec = pod.spec
    return replace(
        pod, spec=replace(spec, containers=changed(spec.containers), init_containers=changed(spec.init_containers))
    )


def terminating(pod: Pod, now: float, grace: int) -> Pod:
    """Returns the pod with its deletionTimestamp."""
    meta = replace(pod.metadata, deletion_timestamp=timestamp(now + grace), deletion_grace_period_seconds=grace)
    return replace(pod, metadata=meta)


def evicted(pod: Pod, by: str, rule: str, now: float) -> Pod:
    """Returns the pod with the marker of its eviction and the condition that the Eviction API sets."""
    notes = {**pod.metadata.annotations, **eviction_annotations(by, rule)}
    target = Condition(
        type="DisruptionTarget",
        status="True",
        reason="EvictionByEvictionAPI",
        message=f"evicted by {rule}",
        last_transition_time=timestamp(now),
    )
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=notes),
        status=replace(pod.status, conditions=_merged(pod.status.conditions, (target,))),
    )


def _merged(old: list[Condition], new: tuple[Condition, ...]) -> list[Condition]:
    """Returns the conditions with the new ones merged by type, sorted by type."""
    if not old:
        return list(new)
    types = [c.type for c in new]
    return sorted([*(c for c in old if c.type not in types), *new], key=lambda c: c.type)


@lru_cache(maxsize=8)
def _scheduled(now: float) -> tuple[Condition, ...]:
    return (_condition("PodScheduled", "True", now),)


@lru_cache(maxsize=8)
def _started(now: float) -> tuple[Condition, ...]:
    return (_condition("ContainersReady", "True", now), _condition("Ready", "True", now))


@lru_cache(maxsize=8)
def _ended(now: float) -> tuple[Condition, ...]:
    return (_condition("ContainersReady", "False", now), _condition("Ready", "False", now))


def _condition(type: str, status: str, now: float) -> Condition:
    return Condition(type=type, status=status, last_transition_time=timestamp(now))
