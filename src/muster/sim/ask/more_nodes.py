"""The smallest number of new nodes, copies of one that exists, with which the whole job runs now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from muster.engine.core.allocatable import allocatable_of
from muster.engine.core.jobs import Task
from muster.model.core import Node
from muster.model.kinds import plain
from muster.model.meta import Object
from muster.model.quantity import display
from muster.sim.ask.answer import MORE_NODES, Proposal
from muster.sim.ask.trial import Asked

__all__ = ["cheapest_nodes", "more_nodes", "node_kinds", "nodes_proposal", "with_copies"]

HOSTNAME = "kubernetes.io/hostname"
GROUP_LABEL = "volcano.sh/nodegroup-name"
MAX_KINDS = 8  # kinds of nodes that are tried, the smallest first
MAX_NODES = 1024
# The lifecycle controller sets these taints for the state of one node; a new node does not have them.
_STATE_TAINTS = ("node.kubernetes.io/",)


def more_nodes(asked: Asked, tasks: Sequence[Task], pods: int, waiting: int) -> Iterator[Proposal]:
    """Yields the cheapest kind of node with the smallest number of copies; a larger kind if it needs fewer nodes."""
    for template, count in cheapest_nodes(asked, tasks, pods, waiting):
        yield nodes_proposal(template, count)


def cheapest_nodes(asked: Asked, tasks: Sequence[Task], pods: int, waiting: int) -> Iterator[tuple[Node, int]]:
    """Yields kinds of nodes and the number of copies with which the job runs: small kinds first, then those that need
    fewer nodes.

    `tasks` are pods of the job, `pods` is their number when all are created, `waiting` that of other pods that wait.
    """
    # Each new node takes at least one pod, and pods that wait already come first.
    most = min(pods + waiting, MAX_NODES)
    for template in node_kinds(asked.cluster, selected_labels(tasks))[:MAX_KINDS]:
        count = smallest_number(asked, template, most)
        if count is not None:
            most = count - 1
            yield template, count
        if not most:
            return


def smallest_number(asked: Asked, template: Node, most: int) -> int | None:
    """Returns the smallest number of copies with which the job runs, by bisection; None: not even with the most."""
    if not with_copies(asked, template, most).try_now().runs:
        return None
    low, high = 0, most  # with `low` it does not run, with `high` it does
    while high - low > 1:
        # Small numbers are likely: double up from below before the interval is halved.
        middle = min(max(1, low * 2), (low + high) // 2) if low * 4 < high else (low + high) // 2
        if with_copies(asked, template, middle).try_now().runs:
            high = middle
        else:
            low = middle
    return high


def with_copies(asked: Asked, template: Node, count: int) -> Asked:
    """Returns the question with new nodes that are like the template, ready and empty."""
    known = asked.cluster.get("Node", {})
    made: dict[str, Object] = {}
    number = 0
    while len(made) < count:
        number += 1
        name = f"{template.metadata.name}-new-{number}"
        if name not in known:
            made[name] = _copy(template, name)
    return asked.with_objects("Node", made)


def _copy(template: Node, name: str) -> Node:
    meta = template.metadata
    labels = {key: (name if key == HOSTNAME else value) for key, value in meta.labels.items()}
    taints = [taint for taint in template.spec.taints if not taint.key.startswith(_STATE_TAINTS)]
    spec = replace(template.spec, unschedulable=False, taints=taints)
    return replace(template, metadata=replace(meta, name=name, uid=name, labels=labels), spec=spec)


def selected_labels(tasks: Sequence[Task]) -> set[str]:
    """Returns the labels of nodes that the pods select, and the one that says which node group a node is in."""
    found = {GROUP_LABEL}
    for task in tasks:
        spec = task.pod.spec
        found |= spec.node_selector.keys()
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        for term in required.node_selector_terms if required is not None else ():
            found |= {expression.key for expression in term.match_expressions}
    return found


def node_kinds(cluster: Mapping[str, Mapping[str, Object]], relevant: Collection[str]) -> list[Node]:
    """Returns one node of each kind (allocatable, relevant labels, taints), the smallest first: fewest devices, then
    CPU and memory. Nodes that are not ready or cordoned come after those that can be used."""
    kinds: dict[bytes, Node] = {}
    for _, node in sorted(cluster.get("Node", {}).items()):
        assert isinstance(node, Node)
        labels = {key: value for key, value in node.metadata.labels.items() if key in relevant}
        taints = [taint for taint in node.spec.taints if not taint.key.startswith(_STATE_TAINTS)]
        kind = msgspec.json.encode([node.status.allocatable, sorted(labels.items()), taints])
        known = kinds.get(kind)
        if known is None or (not _usable(known) and _usable(node)):
            kinds[kind] = node
    return sorted(kinds.values(), key=lambda node: (not _usable(node), *_price(node), node.metadata.name))


def _usable(node: Node) -> bool:
    ready = all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")
    return ready and not node.spec.unschedulable


def _price(node: Node) -> tuple[int, int, int]:
    """Returns what stands for the price of a node: its devices, its CPU and its memory."""
    size = allocatable_of(node)
    devices = sum(amount for name, amount in size.items() if "/" in name and not name.startswith("hugepages"))
    return devices, size.get("cpu", 0), size.get("memory", 0)


def nodes_proposal(template: Node, count: int) -> Proposal:
    """Returns the proposal to add this number of nodes."""
    like, size = template.metadata.name, allocatable_of(template)
    named = (name for name in sorted(size) if size[name] and (name in ("cpu", "memory") or "/" in name))
    shown = ", ".join(f"{display(name, size[name])} {name}" for name in named)
    text = f"Add {count} more node{'s'[: count != 1]} like {like} ({shown})."
    example = plain(_copy(template, f"{like}-new-1"))
    change = {"like": like, "nodes": count, "allocatable": example["status"].get("allocatable", {})}
    return Proposal(MORE_NODES, text, change)
