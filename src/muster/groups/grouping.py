"""The groups of each node, and which group of a policy a node counts for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import msgspec

from muster.groups.applications import BindingState, PolicyLabels, binding_state
from muster.groups.membership import Membership
from muster.groups.propagation import DOES_NOT_EXIST, HAS_NO_NODES, Policies, PropagationRules
from muster.model.core import Node, PodSpec
from muster.model.extender import KnownNames
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.selectors import asks_for

__all__ = ["Grouping"]


class Grouping:
    """An index of nodes, node groups and policies. It is immutable: build another one when they change.

    Membership comes from NodeGroup.spec and never from a status, so it is also right without controllers.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        groups: Mapping[str, NodeGroup],
        policies: Mapping[str, PropagationPolicy],
    ) -> None:
        self.policies = Policies(policies, groups)
        self._membership = Membership(groups)
        self._nodes = nodes
        self._group_of: dict[tuple[str, ...], dict[str, str]] = {}
        self._group_of_every: dict[tuple[str, ...], dict[str, str | None]] = {}
        self._shared: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self._closed: dict[tuple[str, ...], dict[str, str]] = {}

    @cached_property
    def groups_by_node(self) -> Mapping[str, tuple[str, ...]]:
        """Node → the groups that contain it, sorted by name."""
        return {name: self._membership.of(name, node.metadata.labels) for name, node in self._nodes.items()}

    @cached_property
    def names(self) -> list[str]:
        """The names of the nodes, copied so that they lie next to each other: those in the nodes are spread over the
        whole memory, and to look up thousands of them takes twice the time."""
        return msgspec.json.decode(msgspec.json.encode(list(self._nodes)), type=list[str])

    @cached_property
    def known_names(self) -> KnownNames:
        """Reads requests about these nodes."""
        return KnownNames(self.names)

    def group_of(self, groups: tuple[str, ...]) -> Mapping[str, str]:
        """Node → the first of the groups, in this order, that contains it; nodes in none of them are left out."""
        found = self._group_of.get(groups)
        if found is None:
            rank = {group: i for i, group in enumerate(groups)}
            found = self._group_of[groups] = {}
            for name, its in self.groups_by_node.items():
                ours = [rank[group] for group in its if group in rank]
                if ours:
                    found[name] = groups[min(ours)]
        return found

    def group_of_every(self, groups: tuple[str, ...]) -> Mapping[str, str | None]:
        """As `group_of`, with all nodes: None for those in none of the groups."""
        found = self._group_of_every.get(groups)
        if found is None:
            group_of = self.group_of(groups)
            found = self._group_of_every[groups] = {name: group_of.get(name) for name in self.names}
        return found

    def groups_without_nodes(self, rules: PropagationRules) -> dict[str, str]:
        """The policy's groups that contain no node, and why. Their replicas stay pending."""
        groups = tuple(rules.groups)
        found = self._closed.get(groups)
        if found is None:
            its = set(self.group_of(groups).values())
            why = {group: DOES_NOT_EXIST if group in rules.unknown else HAS_NO_NODES for group in groups}
            found = self._closed[groups] = {group: text for group, text in why.items() if group not in its}
        return found

    def overlaps(self, groups: tuple[str, ...]) -> Mapping[str, list[str]]:
        """Nodes that several of the groups contain, with those groups in this order: the node counts for the first."""
        found = self._shared.get(groups)
        if found is None:
            ours = set(groups)
            several = {name: ours.intersection(its) for name, its in sorted(self.groups_by_node.items())}
            found = self._shared[groups] = {
                name: sorted(its, key=groups.index) for name, its in several.items() if len(its) > 1
            }
        return found

    def edition_groups(self, labels: Mapping[str, str], namespace: str) -> Callable[[str], list[str]]:
        """Returns a function: node → the groups whose edition pods of the application with these labels have there.

        That is the group that the node counts for by the PropagationPolicy; without such a policy, all its groups.
        """
        state = binding_state(labels, PolicyLabels.PROPAGATION)
        if state in (BindingState.FREE, BindingState.STALE):
            return lambda node: list(self.groups_by_node.get(node, ()))
        bound = labels.get(PolicyLabels.PROPAGATION.binding, "") if state == BindingState.BOUND else ""
        rules = self.policies.read(f"{namespace}/{bound}")
        group_of = {} if rules is None else self.group_of(tuple(rules.groups))
        return lambda node: [group_of[node]] if node in group_of else []

    def certain_groups(self, spec: PodSpec) -> list[str]:
        """The groups that a pod will be in on every node its selector and affinity allow; empty: they differ."""
        found: set[tuple[str, ...]] = set()
        try:
            for name, node in self._nodes.items():
                if asks_for(spec, name, node.metadata.labels):
                    found.add(self.groups_by_node.get(name, ()))
                    if len(found) > 1:
                        return []
        except ValueError:
            return []  # an operator that the API server refuses
        return list(found.pop()) if found else []

    def group_of_unlisted_node(self, groups: tuple[str, ...], node: str, labels: Mapping[str, str]) -> str | None:
        """The group of a node that is not in this index (yet)."""
        its = self._membership.of(node, labels)
        return next((group for group in groups if group in its), None)
