"""KAI's segments: pods with consecutive indices form a sub-group, which has a topology constraint of its own."""

from __future__ import annotations

from collections.abc import Mapping

from muster.model.core import Pod
from muster.model.quantity import whole
from muster.model.scheduling import PodGroup, SubGroup, TopologyConstraint

__all__ = ["SEGMENT_SIZE", "give_segments", "segment_of", "segments"]

SEGMENT_SIZE = "kai.scheduler/segment-size"
_REQUIRED = "kai.scheduler/segment-topology-required-placement"
_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
_TOPOLOGY = "kai.scheduler/topology"


def segments(role: str, count: int, minimum: int, notes: Mapping[str, str]) -> list[SubGroup]:
    """Returns the sub-groups of so many pods of one role; none if the annotations request no segments."""
    size = _size(notes)
    if not size:
        return []
    constraint = TopologyConstraint(
        topology=notes.get(_TOPOLOGY, ""),
        required_topology_level=notes.get(_REQUIRED, ""),
        preferred_topology_level=notes.get(_PREFERRED, ""),
    )
    return [
        SubGroup(
            name=_name(role, i), min_member=max(min(minimum - i * size, size), 0), topology_constraint=constraint
        )
        for i in range(-(-count // size))
    ]


def give_segments(group: PodGroup, sub_groups: list[SubGroup]) -> None:
    """Gives a group its segments. A topology without a level for the whole group is then that of the segments only."""
    group.spec.sub_groups = sub_groups
    notes = group.metadata.annotations
    if sub_groups and not any(name.startswith(f"{_TOPOLOGY}-") for name in notes):
        notes.pop(_TOPOLOGY, None)


def segment_of(pod: Pod, role: str, index_label: str, notes: Mapping[str, str]) -> str:
    """Returns the name of the pod's segment; empty if it is in none."""
    size = _size(notes)
    number = whole(pod.metadata.labels.get(index_label, "")) if size and index_label else None
    return "" if number is None else _name(role, number // size)


def _size(notes: Mapping[str, str]) -> int:
    return max(whole(notes.get(SEGMENT_SIZE, "")) or 0, 0)


def _name(role: str, number: int) -> str:
    return f"{role or 'pods'}-segment-{number}"
