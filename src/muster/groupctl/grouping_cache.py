"""The groups of the nodes of a live cluster, computed again only when nodes, node groups or policies change."""

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
