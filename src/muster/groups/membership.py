"""The nodes that a NodeGroup contains: those it names, and those that have all of its labels.

Empty labels select no node (an absent selector does not mean "all"). A name without a node is ignored: a group can be
created before its nodes. Groups may overlap unless they are exclusive, as all are in KubeEdge: a node is in the oldest
of the exclusive groups that would contain it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.groups.applications import DOMAIN
from muster.model.groups import NodeGroup, NodeGroupSpec
from muster.model.meta import Object, seconds

__all__ = ["EXCLUSIVE", "Membership", "contains", "is_exclusive", "members", "changes_membership", "resolve"]

EXCLUSIVE = f"{DOMAIN}/exclusive"
"""The annotation of an exclusive NodeGroup (`true`), written by the controllers for all other components."""


def contains(group: NodeGroupSpec, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the node of that name and with those labels belongs to the group."""
    if node in group.nodes:
        return True
    wanted = group.match_labels
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def members(group: NodeGroupSpec, nodes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns the nodes of the group among all nodes (name → labels), sorted, each once."""
    return sorted(node for node, labels in nodes.items() if contains(group, node, labels))


def resolve(name: str, groups: Collection[str]) -> str | None:
    """The NodeGroup that a spelling means: the exact name first, then its lower case; None if there is neither.

    Names of objects are always lower case, so `Beijing` can only mean `beijing`.
    """
    if name in groups:
        return name
    return name.lower() if name.lower() in groups else None


class Membership:
    """An index of all NodeGroups: which of them contain a node."""

    def __init__(self, groups: Mapping[str, NodeGroup]) -> None:
        self._named: dict[str, list[str]] = {}
        self._labelled: dict[tuple[str, str], list[str]] = {}  # one of the labels of a group's selector → groups
        self._groups = {name: group.spec for name, group in groups.items()}
        exclusive = [name for name, group in groups.items() if is_exclusive(group)]
        # KubeEdge's rule: the oldest group has the node, then the first by name.
        exclusive.sort(key=lambda name: (seconds(groups[name].metadata.creation_timestamp), name))
        self._age = {name: i for i, name in enumerate(exclusive)}
        for name, group in sorted(self._groups.items()):
            for node in group.nodes:
                self._named.setdefault(node, []).append(name)
            if group.match_labels:
                self._labelled.setdefault(min(group.match_labels.items()), []).append(name)

    def of(self, node: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The groups that contain the node, in the order of their names; of the exclusive groups only the oldest."""
        found = dict.fromkeys(self._named.get(node, ()))
        for pair in labels.items():
            for name in self._labelled.get(pair, ()):
                if contains(self._groups[name], node, labels):
                    found[name] = None
        if self._age:
            exclusive = sorted((name for name in found if name in self._age), key=self._age.__getitem__)
            for name in exclusive[1:]:
                del found[name]
        return tuple(sorted(found))


def is_exclusive(group: NodeGroup) -> bool:
    """Whether the group is exclusive: a node is in at most one exclusive group."""
    return group.metadata.annotations.get(EXCLUSIVE) == "true"


def changes_membership(old: Object | None, new: Object | None) -> bool:
    """Whether the change of a NodeGroup can change its members."""
    if not isinstance(old, NodeGroup) or not isinstance(new, NodeGroup):
        return True
    return old.spec != new.spec or is_exclusive(old) != is_exclusive(new)
