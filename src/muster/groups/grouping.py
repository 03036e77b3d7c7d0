"""Nodes, node groups and policies of a cluster held together: which group of a policy holds which node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.groups.gate import Pair, Situation, situation
from muster.groups.membership import Membership
from muster.groups.policies import Policies
from muster.groups.propagation import DOES_NOT_EXIST, HAS_NO_NODES, Propagation
from muster.model.core import Node, PodSpec
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.selectors import asks_for

__all__ = ["Grouping"]


class Grouping:
    """As the objects are now; make another one when they change.

    Membership comes from NodeGroup.spec and never from a status, so it is right without controllers, too.
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
        self.held = {name: self._membership.of(name, node.metadata.labels) for name, node in nodes.items()}
        self._group_of: dict[tuple[str, ...], dict[str, str]] = {}
        self._shared: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self._closed: dict[tuple[str, ...], dict[str, str]] = {}

    def group_of(self, groups: tuple[str, ...]) -> Mapping[str, str]:
        """Node → the first of the groups, in this order, that holds it; nodes in none are left out."""
        found = self._group_of.get(groups)
        if found is None:
            rank = {group: i for i, group in enumerate(groups)}
            found = self._group_of[groups] = {}
            for name, held in self.held.items():
                ours = [group for group in held if group in rank]
                if ours:
                    found[name] = min(ours, key=rank.__getitem__)
        return found

    def closed(self, meant: Propagation) -> dict[str, str]:
        """The policy's groups that hold no node, and why: a share of theirs waits."""
        groups = tuple(meant.groups)
        found = self._closed.get(groups)
        if found is None:
            held = set(self.group_of(groups).values())
            why = {group: DOES_NOT_EXIST if group in meant.unknown else HAS_NO_NODES for group in groups}
            found = self._closed[groups] = {group: text for group, text in why.items() if group not in held}
        return found

    def shared(self, groups: tuple[str, ...]) -> Mapping[str, list[str]]:
        """Nodes that several of the groups hold, with those groups in this order: the first of them has the node."""
        found = self._shared.get(groups)
        if found is None:
            ours = set(groups)
            several = {name: ours.intersection(held) for name, held in sorted(self.held.items())}
            found = self._shared[groups] = {
                name: sorted(held, key=groups.index) for name, held in several.items() if len(held) > 1
            }
        return found

    def editions_of(self, labels: Mapping[str, str], namespace: str) -> Callable[[str], list[str]]:
        """Node → the groups whose edition the pods there are, of the application with these labels.

        The one that counts by its PropagationPolicy; of an application that asks for none, all that hold the node.
        """
        stands = situation(labels, Pair.PROPAGATION)
        if stands in (Situation.FREE, Situation.STALE):
            return lambda node: list(self.held.get(node, ()))
        bound = labels.get(Pair.PROPAGATION.binding, "") if stands == Situation.BOUND else ""
        meant = self.policies.read(f"{namespace}/{bound}")
        group_of = {} if meant is None else self.group_of(tuple(meant.groups))
        return lambda node: [group_of[node]] if node in group_of else []

    def sure_of(self, spec: PodSpec) -> list[str]:
        """The groups that a pod will be in wherever its own selector and affinity let it go; none: that depends."""
        found: set[tuple[str, ...]] = set()
        try:
            for name, node in self._nodes.items():
                if asks_for(spec, name, node.metadata.labels):
                    found.add(self.held.get(name, ()))
                    if len(found) > 1:
                        return []
        except ValueError:
            return []  # an operator that the API server refuses
        return list(found.pop()) if found else []

    def group_of_stranger(self, groups: tuple[str, ...], node: str, labels: Mapping[str, str]) -> str | None:
        """The same for a node that is not among these (yet)."""
        held = self._membership.of(node, labels)
        return next((group for group in groups if group in held), None)
