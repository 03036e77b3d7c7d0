"""The groups of the nodes of a live cluster, and the number of pods of each unit per node group.

The groups are computed again only when nodes, node groups or policies change; the numbers are kept current from the
pods. A pod counts while it is neither finished nor terminating: in the group of its node, and, if `count_assigned` is
set, before it has a node in the group it was created for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from muster.groupctl.owners import ObjectTables
from muster.groups.applications import Unit, unit_of
from muster.groups.assignment import ASSIGNED
from muster.groups.grouping import Grouping
from muster.groups.membership import changes_membership
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, spec_of
from muster.model.pod_states import is_active

T = TypeVar("T", bound=Object)


class GroupingCache:
    """Caches the Grouping of a cluster. `observe` must be called for every change."""

    def __init__(self, tables: ObjectTables) -> None:
        self._tables = tables
        self._grouping: Grouping | None = None

    def observe(self, kind: str, old: Object | None, new: Object | None) -> bool:
        """Whether the change can change the group of a node; a node's heartbeat cannot."""
        if kind not in ("Node", "NodeGroup", "PropagationPolicy"):
            return False
        if kind == "Node" and old is not None and new is not None:
            relevant = old.metadata.labels != new.metadata.labels
        else:
            relevant = (
                changes_membership(old, new) if kind == "NodeGroup" else kind == "Node" or spec_of(old) != spec_of(new)
            )
        if relevant:
            self._grouping = None
        return relevant

    @property
    def grouping(self) -> Grouping:
        if self._grouping is None:
            self._grouping = Grouping(self.of(Node), self.of(NodeGroup), self.of(PropagationPolicy))
        return self._grouping

    def of(self, kind: type[T]) -> Mapping[str, T]:
        return cast("Mapping[str, T]", self._tables.get(kind.__name__, {}))


Location = tuple[str, str]  # the node; or "" and the group that the pod was created for


class UnitCounts:
    """Counts pods by unit and node group. `put` and `remove` must be called for every change of a pod."""

    def __init__(self, *, count_assigned: bool = False) -> None:
        self._count_assigned = count_assigned
        self._pods: dict[str, tuple[str, Unit, Location]] = {}  # pod → uid, unit and location, of pods that count
        self._by_uid: dict[str, tuple[Unit, Location]] = {}
        self._locations: dict[Unit, dict[Location, int]] = {}
        # unit → groups of a policy → pods per group, of the units that were asked about
        self._counts: dict[Unit, dict[tuple[str, ...], dict[str, int]]] = {}
        self._grouping: Grouping | None = None

    def put(self, key: str, pod: Pod) -> None:
        """Takes in a pod that came or changed."""
        self.remove(key)
        location = self._location(pod)
        if location is not None:
            unit = unit_of(key, pod)
            self._pods[key] = pod.metadata.uid, unit, location
            self._by_uid[pod.metadata.uid] = unit, location
            self._add(unit, location, 1)

    def remove(self, key: str) -> None:
        """Takes out a pod that was deleted."""
        known = self._pods.pop(key, None)
        if known is not None:
            uid, unit, location = known
            self._by_uid.pop(uid, None)
            self._add(unit, location, -1)

    def node_of(self, uid: str) -> tuple[Unit, str] | None:
        """The unit and the node of a pod that counts."""
        known = self._by_uid.get(uid)
        return None if known is None else (known[0], known[1][0])

    def per_group(self, unit: Unit, groups: tuple[str, ...], grouping: Grouping, but: str = "") -> dict[str, int]:
        """How many pods of the unit each of the groups has, without the pod whose key is `but`."""
        if grouping is not self._grouping:
            self._counts.clear()
            self._grouping = grouping
        of_unit = self._counts.setdefault(unit, {})
        known = of_unit.get(groups)
        if known is None:
            known = of_unit[groups] = {}
            for location, n in self._locations.get(unit, {}).items():
                _add(known, _group(location, groups, grouping), n)
        counts = dict(known)
        if but in self._pods and self._pods[but][1] == unit:
            _add(counts, _group(self._pods[but][2], groups, grouping), -1)
        return counts

    def _location(self, pod: Pod) -> Location | None:
        """Where the pod counts; None: nowhere."""
        if not is_active(pod):
            return None
        if pod.spec.node_name:
            return pod.spec.node_name, ""
        assigned = pod.metadata.labels.get(ASSIGNED, "") if self._count_assigned else ""
        return ("", assigned) if assigned else None

    def _add(self, unit: Unit, location: Location, by: int) -> None:
        locations = self._locations.setdefault(unit, {})
        locations[location] = locations.get(location, 0) + by
        if not locations[location]:
            del locations[location]
        if not locations:
            del self._locations[unit]
            self._counts.pop(unit, None)
            return
        for groups, counts in self._counts.get(unit, {}).items():
            assert self._grouping is not None  # the counts were made with it
            _add(counts, _group(location, groups, self._grouping), by)


def _group(location: Location, groups: tuple[str, ...], grouping: Grouping) -> str | None:
    node, assigned = location
    if node:
        return grouping.group_of(groups).get(node)
    return assigned if assigned in groups else None


def _add(counts: dict[str, int], group: str | None, by: int) -> None:
    if group is not None:
        counts[group] = counts.get(group, 0) + by
