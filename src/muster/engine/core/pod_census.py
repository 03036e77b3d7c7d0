"""Counts pods on nodes by what rules about other pods can read of them; kept from cycle to cycle.

Pod affinity, anti-affinity and topology spread read a pod's namespace and labels, and whether it terminates; of a pod
with such rules also its spec, and of a pod without a node its controller. Pods are equal if they agree in all of
these.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING

from muster.engine.core.jobs import ON_NODE, Task
from muster.model.meta import controller
from muster.model.pod_states import is_terminating

if TYPE_CHECKING:
    from muster.engine.core.state import State

_READER = "census"  # of the state's changed pods


class EqualPods:
    """Pods that no rule can tell apart. `example` is one of them, or was until it changed or went."""

    __slots__ = ("count", "count_by_node", "example")

    def __init__(self, example: Task) -> None:
        self.example = example
        self.count = 0
        self.count_by_node: dict[int, int] = {}  # node → how many of them


class PodCensus:
    """All pods of a state. Nothing is counted before the first call; after it, only pods that changed are read."""

    def __init__(self) -> None:
        self._classes: dict[Hashable, EqualPods] = {}
        self._of: dict[str, tuple[Hashable, int]] = {}  # pod → what it is equal in, and its node
        self._nodes: object = None  # the columns whose indices are used

    def update(self, state: State) -> Collection[EqualPods]:
        """Returns the pods of the state, to be called before a cycle changes anything; valid until the next call."""
        changed = state.changed_pods.get(_READER)
        if changed is None or self._nodes is not state.nodes:
            self._classes, self._of, self._nodes = {}, {}, state.nodes
            changed = dict.fromkeys(state.tasks)
        for key in changed:
            if key in self._of:
                self._remove(key)
            if (task := state.tasks.get(key)) is not None:
                self._add(task)
        state.changed_pods[_READER] = {}
        return self._classes.values()

    def _add(self, task: Task) -> None:
        identity = _identity(task)
        equal = self._classes.get(identity)
        if equal is None:
            equal = self._classes[identity] = EqualPods(task)
        node = task.node if task.status in ON_NODE else -1
        equal.count += 1
        if node >= 0:
            equal.count_by_node[node] = equal.count_by_node.get(node, 0) + 1
        self._of[task.key] = identity, node

    def _remove(self, key: str) -> None:
        identity, node = self._of.pop(key)
        equal = self._classes[identity]
        equal.count -= 1
        if not equal.count:
            del self._classes[identity]
        elif node >= 0:
            equal.count_by_node[node] -= 1
            if not equal.count_by_node[node]:
                del equal.count_by_node[node]


def _identity(task: Task) -> Hashable:
    spec, meta = task.pod.spec, task.pod.metadata
    rules = task.shape.id if spec.affinity is not None or spec.topology_spread_constraints else None
    owner = None if spec.node_name or not meta.owner_references else controller(meta)
    return (
        rules, task.namespace, tuple(meta.labels.items()), is_terminating(task.pod), bool(spec.node_name),
        None if owner is None else (owner.api_version, owner.kind, owner.name),
    )  # fmt: skip
