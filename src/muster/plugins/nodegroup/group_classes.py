"""The groups of each node: by the label `volcano.sh/nodegroup-name`, and by NodeGroup objects that queues name.

If a node has the name as its label value, the name means the group of that label; a NodeGroup object of the same name
is then only compared with it. Nodes fall into few *classes*, one per combination of groups, so that a queue's rule is
evaluated once per class and looked up for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from muster.engine.core.hooks import Bools, Index
from muster.engine.core.nodes import Nodes
from muster.groups.membership import members, resolve
from muster.model.groups import NodeGroup as NodeGroupObject
from muster.plugins.nodegroup.rules import Groups

LABEL = "volcano.sh/nodegroup-name"


class GroupClasses:
    """The classes of nodes. `class_of[node]` is an index into `classes`."""

    def __init__(self, nodes: Nodes, objects: Mapping[str, NodeGroupObject], named: Iterable[str]) -> None:
        codes, values = nodes.labels.column(LABEL)
        self.classes: list[Groups] = [(value,) if value else () for value in values]
        self.class_of: Index = codes.astype(np.int64)
        self.labelled = [value for value in values if value]
        self.objects = objects
        self.resolved: dict[str, str] = {}  # name in a queue → the NodeGroup object that it resolves to
        self.conflicts: list[str] = []  # names that are a label's group and a NodeGroup object with other nodes
        labels: dict[str, Mapping[str, str]] = {}
        for name in sorted(set(named)):
            object = resolve(name, objects)
            if object is None:
                continue
            labels = labels or {node: nodes.labels.of(i) for i, node in enumerate(nodes.names)}
            contained = np.zeros(len(nodes), np.bool_)
            contained[[nodes.rank[node] for node in members(objects[object].spec, labels)]] = True
            if name not in self.labelled:
                self.resolved[name] = object
                self._divide(name, contained)
            elif (contained != self.within((name,))).any():
                self.conflicts.append(name)

    def _divide(self, name: str, inside: Bools) -> None:
        """Splits every class into the nodes outside and inside one more group."""
        old = self.classes
        found, self.class_of = np.unique(self.class_of * 2 + inside, return_inverse=True)
        self.classes = [old[k // 2] + ((name,) if k % 2 else ()) for k in found.tolist()]

    def within(self, groups: Iterable[str]) -> Bools:
        """Returns True for the nodes that are in at least one of the groups."""
        wanted = set(groups)
        return np.array([not wanted.isdisjoint(c) for c in self.classes], np.bool_)[self.class_of]

    @property
    def names(self) -> list[str]:
        """Returns every group that a queue could use, sorted."""
        return sorted({*self.labelled, *self.resolved})
