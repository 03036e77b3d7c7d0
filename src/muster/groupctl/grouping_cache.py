"""Nodes, node groups and propagation policies of a live cluster, held together anew only when they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from muster.groupctl.owners import ObjectTables
from muster.groups.grouping import Grouping
from muster.groups.membership import changes_membership
from muster.model.core import Node
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, spec_of

T = TypeVar("T", bound=Object)


class GroupingCache:
    """Tell it of every change; `grouping` is then of the objects as they are."""

    def __init__(self, tables: ObjectTables) -> None:
        self._tables = tables
        self._grouping: Grouping | None = None

    def observe(self, kind: str, old: Object | None, new: Object | None) -> bool:
        """Whether the change bears on who belongs where; a node's heartbeat does not."""
        if kind not in ("Node", "NodeGroup", "PropagationPolicy"):
            return False
        if kind == "Node" and old is not None and new is not None:
            bears = old.metadata.labels != new.metadata.labels
        else:
            bears = (
                changes_membership(old, new) if kind == "NodeGroup" else kind == "Node" or spec_of(old) != spec_of(new)
            )
        if bears:
            self._grouping = None
        return bears

    @property
    def grouping(self) -> Grouping:
        if self._grouping is None:
            self._grouping = Grouping(self.of(Node), self.of(NodeGroup), self.of(PropagationPolicy))
        return self._grouping

    def of(self, kind: type[T]) -> Mapping[str, T]:
        return cast("Mapping[str, T]", self._tables.get(kind.__name__, {}))
