"""The usage of queues by node group follows pods, labels and nodes."""

from __future__ import annotations

from builders.manifests import node, queue, typed
from builders.scheduler_objects import waiting
from muster.engine.core.state import State
from muster.scheduler.queue_usage import NODE_GROUP, QueueUsage


def cpus(usage: QueueUsage, state: State) -> dict[str, float]:
    """Returns node group → the cpu that the queue has allocated there."""
    state.refresh()
    return {group: amounts["cpu"] for group, amounts in usage.by_node_group(state).get("default", {}).items()}


def test_usage_by_node_group_follows_pods_labels_and_nodes() -> None:
    state, usage = State(), QueueUsage()
    state.load({
        "Queue": {"default": typed(queue("default"))},
        "Node": {name: typed(node(name, labels={NODE_GROUP: of})) for name, of in (("n1", "a"), ("n2", "b"))},
        "Pod": {f"d/p{i}": waiting(f"p{i}", on=f"n{i % 2 + 1}") for i in range(5)},
    })  # fmt: skip
    assert cpus(usage, state) == {"a": 3000, "b": 2000}
    state.upsert("Pod", "d/p5", waiting("p5", on="n2"))
    state.remove("Pod", "d/p0")
    assert cpus(usage, state) == {"a": 2000, "b": 3000}
    state.upsert("Node", "n2", typed(node("n2", labels={NODE_GROUP: "a"})))
    assert cpus(usage, state) == {"a": 5000}
    state.remove("Node", "n2")
    state.upsert("Node", "n3", typed(node("n3", labels={NODE_GROUP: "a"})))
    assert cpus(usage, state) == {"a": 2000}, "its pods are nowhere any more"
    state.upsert("Node", "n1", typed(node("n1")))
    assert cpus(usage, state) == {}
