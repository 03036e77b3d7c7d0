"""The nodes of a run as the views show them: what each offers and has in use, its state, and its rack or node group."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from muster.engine.core.jobs import Task
from muster.engine.core.state import State
from muster.engine.domains.domain_sources import from_hypernodes, from_topology
from muster.engine.domains.domain_tree import DomainTree
from muster.model.core import readiness
from muster.model.groups import NodeGroup
from muster.model.natural_order import natural
from muster.model.pod_states import is_terminating
from muster.model.topology import HyperNode, Topology
from muster.plugins.nodegroup.group_classes import LABEL
from muster.sim.group_names import queue_of
from muster.sim.result import Result

BEFORE, NEW, TERMINATING = "before", "new", "terminating"
STATES = {NEW: ("+", "placed by this run"), BEFORE: ("", "there before"), TERMINATING: ("−", "being evicted")}
RACK_LABELS = ("topology.kubernetes.io/rack", "topology.kubernetes.io/zone")


@dataclass(slots=True)
class NodeUse:
    """One node: per resource what it offers and what is in use; the share of the most used resource."""

    number: int
    name: str
    group: str  # its rack or node group, "" if it has none
    problem: str  # NotReady, Unknown, cordoned; "" if pods can be placed on it
    offered: dict[str, int]
    used: dict[str, int]
    placed: int = 0  # pods that this run placed
    pods: list[Task] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of the resource of which the largest part is in use; the number of pods does not count."""
        return max((self.used[n] / most for n, most in self.offered.items() if n != "pods" and most > 0), default=0.0)


def nodes_of(result: Result) -> list[NodeUse]:
    """Returns the nodes at the end of the run, sorted by group and name."""
    state = result.state
    groups = groups_of(result)
    size = state.axis.size
    used = state.nodes.rows[2 * size : 3 * size]
    found = []
    placed = placed_pods(result)
    for i, node in enumerate(state.nodes.objects):
        ready = readiness(node)
        problem = ready if ready != "Ready" else "cordoned" if node.spec.unschedulable else ""
        most = {name: n for name, n in state.nodes.amounts(state.nodes.offered, i).items() if n > 0}
        has = state.nodes.amounts(used, i)
        one = NodeUse(i, node.metadata.name, groups[i], problem, most, has, pods=list(state.nodes.on[i].values()))
        for task in one.pods:
            one.placed += state_of(task, placed) == NEW
        found.append(one)
    return sorted(found, key=lambda one: (one.group == "", natural(one.group), natural(one.name)))


def in_order(tasks: list[Task]) -> list[Task]:
    """Returns the pods of a node by queue and name, those of other schedulers last."""
    return sorted(tasks, key=lambda task: (queue_of(task) == "", natural(queue_of(task)), natural(task.key)))


def placed_pods(result: Result) -> set[str]:
    """Returns the pods that the run bound, also those that a filter leaves out of its result."""
    return {*result.binds, *(pod for record in result.history for pod in record.binds)}


def state_of(task: Task, placed: Collection[str]) -> str:
    if is_terminating(task.pod):
        return TERMINATING
    return NEW if task.key in placed else BEFORE


def groups_of(result: Result) -> list[str]:
    """Returns for each node its rack (the narrowest domain of a topology tree), else its node group, else "".

    A NodeGroup object comes before Volcano's label, and both before the usual labels for racks and zones.
    """
    state = result.state
    found = [""] * len(state.nodes)
    for tree in domain_trees(state):
        for level in range(1, len(tree.levels)):
            for node in np.flatnonzero(tree.ids[level] >= 0).tolist():
                found[node] = f"{tree.levels[level]} {tree.paths[level][int(tree.ids[level, node])]}"
        return found
    for name, group in sorted(result.of(NodeGroup).items()):
        for member in group.status.contained_nodes:
            i = state.nodes.rank.get(member, -1)
            if i >= 0 and not found[i]:
                found[i] = f"node group {name}"
    for label, word in ((LABEL, "node group"), *((one, one.rpartition("/")[2]) for one in RACK_LABELS)):
        if any(found):
            return found
        labels = (node.metadata.labels.get(label, "") for node in state.nodes.objects)
        found = [f"{word} {value}" if value else "" for value in labels]
    return found


def domain_trees(state: State) -> list[DomainTree]:
    """Returns the topology trees of the cluster that have a level with nodes."""
    topologies = (o for _, o in sorted(state.objects["Topology"].items()) if isinstance(o, Topology))
    found = [from_topology(topology, state.nodes).tree for topology in topologies]
    hypernodes = {key: o for key, o in sorted(state.objects["HyperNode"].items()) if isinstance(o, HyperNode)}
    if hypernodes:
        found.append(from_hypernodes(hypernodes, state.nodes).tree)
    return [tree for tree in found if len(tree.everything.members) and len(tree.levels) > 1]
