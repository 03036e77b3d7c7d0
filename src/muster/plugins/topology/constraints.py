"""Reads the topology constraint of a group: annotations, KAI's `topologyConstraint`, Volcano's `networkTopology`.

All of them become a tree of domains, a level that must be shared and a level that should be shared.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from muster.config.names import nearest
from muster.engine.core.hooks import NodeSetError
from muster.engine.core.jobs import Job
from muster.engine.core.nodes import Nodes
from muster.engine.core.subgroups import SubGroup
from muster.engine.domains.domain_sources import Source, from_hypernodes, from_topology
from muster.engine.domains.domain_tree import DomainTree
from muster.model.meta import ObjectMeta
from muster.model.scheduling import LabelDomain, NetworkTopology, TopologyConstraint
from muster.model.topology import HyperNode, Topology, TopologyLevel, TopologySpec

TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"


class LevelConstraint(Struct, frozen=True):
    """A tree and the levels (by number, 0 is the root) that must and should be shared."""

    tree: DomainTree
    required: int | None
    preferred: int | None

    @property
    def levels(self) -> list[int]:
        """Returns the levels whose domains are tried, the narrowest first."""
        widest = self.required if self.required is not None else 0
        return list(range(self.preferred if self.preferred is not None else widest, widest - 1, -1))


class Trees:
    """The domain trees of one cluster; each is built on first use."""

    def __init__(self, nodes: Nodes, topologies: Mapping[str, Topology], hypernodes: Mapping[str, HyperNode]) -> None:
        self.nodes = nodes
        self.topologies = topologies
        self.hypernodes = hypernodes
        self._made: dict[str, Source] = {}
        self._labels: dict[str, DomainTree] = {}
        self._network: Source | None = None

    def topology(self, name: str) -> Source:
        if name not in self._made:
            if name not in self.topologies:
                near = nearest(name, self.topologies)
                hint = f"; did you mean {near}?" if near else ""
                raise NodeSetError(f"Requested topology {name} does not exist{hint}")
            self._made[name] = from_topology(self.topologies[name], self.nodes)
        return self._made[name]

    def label(self, key: str) -> DomainTree:
        """Returns the domains of one node label, which need no Topology object."""
        if key not in self._labels:
            levels = TopologySpec(levels=[TopologyLevel(node_label=key)])
            self._labels[key] = from_topology(Topology(metadata=ObjectMeta(name=key), spec=levels), self.nodes).tree
        return self._labels[key]

    def network(self) -> Source:
        if self._network is None:
            self._network = from_hypernodes(self.hypernodes, self.nodes)
        return self._network

    def tier_named(self, name: str) -> int | None:
        tiers = {h.spec.tier_name: h.spec.tier for _, h in sorted(self.hypernodes.items()) if h.spec.tier_name}
        return tiers.get(name)


def constraint_of(job: Job) -> TopologyConstraint | NetworkTopology | None:
    """Returns the constraint of the group as a whole, None if it has none. An annotation overrides the spec.

    KAI: levels without the name of a topology have no effect (`validate` reports them).
    """
    notes, spec = job.group.metadata.annotations, job.group.spec
    if isinstance(spec.topology_constraint, LabelDomain):
        return spec.topology_constraint
    if notes.get(TOPOLOGY):
        return TopologyConstraint(
            topology=notes[TOPOLOGY],
            required_topology_level=notes.get(REQUIRED, ""),
            preferred_topology_level=notes.get(PREFERRED, ""),
        )
    if spec.topology_constraint is not None and spec.topology_constraint.topology:
        return spec.topology_constraint
    return spec.network_topology


def constraint_of_group(job: Job, group: SubGroup) -> TopologyConstraint | NetworkTopology | None:
    """Returns the constraint of a sub-group; levels without a topology are those of the whole group's topology."""
    own = group.topology
    if own is None or not (own.topology or own.required_topology_level or own.preferred_topology_level):
        return group.network
    if own.topology:
        return own
    whole = constraint_of(job)
    if not isinstance(whole, TopologyConstraint):
        return group.network
    return TopologyConstraint(
        topology=whole.topology,
        required_topology_level=own.required_topology_level,
        preferred_topology_level=own.preferred_topology_level,
    )


def level_constraint_of(constraint: TopologyConstraint | NetworkTopology, trees: Trees, who: str) -> LevelConstraint:
    """Returns the constraint as levels of a tree. `who` is "the group" or "sub-group name" in error messages."""
    if isinstance(constraint, NetworkTopology):
        return _network(constraint, trees, who)
    if isinstance(constraint, LabelDomain):
        return LevelConstraint(trees.label(constraint.topology), 1, None)
    tree = trees.topology(constraint.topology).tree
    required = _level(tree, constraint.required_topology_level, "requires", who)
    preferred = _level(tree, constraint.preferred_topology_level, "prefers", who)
    if required is None and preferred is None:
        raise NodeSetError(f"{who} names the topology {tree.name}, but no level of it")
    if required is not None and preferred is not None and preferred < required:
        raise NodeSetError(
            f"{who} prefers the level {tree.levels[preferred]}, which is wider than the level "
            f"{tree.levels[required]} that it requires"
        )
    return LevelConstraint(tree, required, preferred)


def _level(tree: DomainTree, key: str, verb: str, who: str) -> int | None:
    if not key:
        return None
    level = tree.level(key)
    if level is None:
        has = ", ".join(tree.levels[1:]) or "no levels"
        raise NodeSetError(f"{who} {verb} the level {key}, but the topology {tree.name} has {has}")
    return level


def _network(constraint: NetworkTopology, trees: Trees, who: str) -> LevelConstraint:
    """Volcano: tiers up to the highest allowed are tried, the lowest first; soft mode allows all, then any nodes."""
    source = trees.network()
    tree = source.tree
    circular = any(fault.code == "hypernode-cycle" for fault in source.faults)
    because = ": some contain each other" if circular else ""  # `validate` names them; messages to users name no domain
    narrowest = len(tree.levels) - 1
    if constraint.mode == "soft":
        if not narrowest:
            raise NodeSetError(f"{who} has a networkTopology, but there are no usable HyperNodes{because}")
        return LevelConstraint(tree, None, narrowest)
    allowed = constraint.highest_tier_allowed
    if allowed is None and constraint.highest_tier_name:
        allowed = trees.tier_named(constraint.highest_tier_name)
        if allowed is None:
            raise NodeSetError(f"{who} allows the tier {constraint.highest_tier_name}, which no HyperNode has")
    if allowed is None:
        allowed = 1  # Volcano: the default of its CRD
    within = [level for level in range(1, narrowest + 1) if int(tree.levels[level]) <= allowed]
    if not within:
        raise NodeSetError(f"{who} allows tiers up to {allowed}, but there is no usable HyperNode of those{because}")
    return LevelConstraint(tree, within[0], narrowest)
