"""Which nodes a NodeGroup contains: those it names, and those that have all of its labels.

The union of both. No labels select no node (a selector that is absent does not mean "all"), and a name without a node
contains nothing: a group can be written before its nodes come. Groups may overlap, unless they are to be exclusive:
then a node is in the oldest of those that would contain it, as in KubeEdge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from muster.model.groups import NodeGroup, NodeGroupSpec
from muster.model.meta import seconds

__all__ = ["Membership", "contains", "members", "membership", "resolve"]


def contains(group: NodeGroupSpec, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the node of that name and with those labels belongs to the group."""
    if node in group.nodes:
        return True
    wanted = group.match_labels
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def members(group: NodeGroupSpec, nodes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The group's nodes among the existing ones (name → labels), sorted, each once."""
    return sorted(node for node, labels in nodes.items() if contains(group, node, labels))


def resolve(name: str, groups: Collection[str]) -> str | None:
    """The NodeGroup that a spelling means: the exact name first, then its lower case; None if there is neither.

    Names of objects are always lower case, so `Beijing` can only mean `beijing`.
    """
    if name in groups:
        return name
    return name.lower() if name.lower() in groups else None


class Membership:
    """All NodeGroups at once: which of them contain a node."""

    def __init__(self, groups: Mapping[str, NodeGroupSpec], order: Sequence[str] | None = None) -> None:
        """`order`: a node is only in the first of these that contains it."""
        self._order = None if order is None else {name: i for i, name in enumerate(order)}
        self._named: dict[str, list[str]] = {}
        self._labelled: dict[tuple[str, str], list[str]] = {}  # one of the labels that a group asks for → groups
        self._groups = groups
        for name, group in sorted(groups.items()):
            for node in group.nodes:
                self._named.setdefault(node, []).append(name)
            if group.match_labels:
                self._labelled.setdefault(min(group.match_labels.items()), []).append(name)

    def of(self, node: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The groups that contain the node, in the order of their names."""
        found = dict.fromkeys(self._named.get(node, ()))
        for pair in labels.items():
            for name in self._labelled.get(pair, ()):
                if contains(self._groups[name], node, labels):
                    found[name] = None
        if self._order is not None and found:
            return (min(found, key=self._order.__getitem__),)
        return tuple(sorted(found))


def membership(groups: Mapping[str, NodeGroup], *, exclusive: bool = False) -> Membership:
    """Of the groups as objects. KubeEdge's rule, if `exclusive`: the oldest group has the node, then the first name."""
    specs = {name: group.spec for name, group in groups.items()}
    age = sorted(groups, key=lambda name: (seconds(groups[name].metadata.creation_timestamp), name))
    return Membership(specs, age if exclusive else None)
