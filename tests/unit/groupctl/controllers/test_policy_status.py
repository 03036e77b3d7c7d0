"""The conditions and events of policies."""

from __future__ import annotations

from builders.node_groups import (
    REQUIRED_OVERRIDE,
    bound,
    deployment,
    groups,
    nginx_pod,
    node_group,
    nodes,
    overrides,
    pods,
    registry,
    store_of,
    weights,
)
from muster.cluster.memory import MemoryStore
from muster.groupctl.controllers.eviction_order import eviction_order
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.model.core import Pod
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import Object
from muster.model.pod import ContainerStatus


def rest(store: MemoryStore, controllers: list[PropagationPolicyController | OverridePolicyController]) -> None:
    while sum(controller.run() for controller in controllers):
        pass


def at_work(*objects: Object) -> tuple[MemoryStore, list[PropagationPolicyController | OverridePolicyController]]:
    store = store_of(*objects)
    evictions = EvictionQueue(store)
    both = [PropagationPolicyController(store, evictions), OverridePolicyController(store, evictions)]
    rest(store, both)
    return store, both


def resolved(policy: PropagationPolicy | OverridePolicy) -> tuple[str, str, str]:
    return next((c.status, c.reason, c.message) for c in policy.status.conditions if c.type == "Resolved")


def reasons(store: MemoryStore) -> list[str]:
    return [note.reason for note in store.events]


def test_a_group_without_nodes_is_reported_and_its_coming_is_too() -> None:
    store, both = at_work(*nodes(but=("node-a", "node-b")), *groups(), weights())
    status, reason, message = resolved(store.get(PropagationPolicy, "default/pp"))
    assert (status, reason, message) == ("False", "GroupEmpty", "node group hangzhou has no nodes: its share waits")
    assert "GroupEmpty" in reasons(store)
    store.create(nodes()[0])
    rest(store, both)
    assert resolved(store.get(PropagationPolicy, "default/pp"))[:2] == ("True", "GroupsFound")


def test_a_node_of_two_groups_is_reported_with_the_one_that_has_it() -> None:
    store, _ = at_work(
        *nodes(), *groups(), node_group("arm", "node-a", "node-b"), weights(arm=1, hangzhou=1, beijing=1)
    )
    (text,) = [note.message for note in store.events if "counts for" in note.message]
    assert "node node-a is in arm and hangzhou: it counts for arm, named first, and so for 1 others" in text


def test_an_override_for_a_group_that_is_not_there_reports_it_until_it_is() -> None:
    store, both = at_work(
        *nodes(), overrides(registry("Hangzhou"), registry("Beijing")), node_group("beijing", "node-c")
    )
    policy = store.get(OverridePolicy, "default/op")
    assert resolved(policy) == ("False", "GroupUnknown", "there is no node group hangzhou: the rule has no effect")
    assert {"GroupUnknown", "GroupNameCase"} <= set(reasons(store))
    store.create(node_group("hangzhou", "node-a"))
    rest(store, both)
    assert resolved(store.get(OverridePolicy, "default/op"))[:2] == ("True", "RulesUsable")
    store.delete(NodeGroup, "hangzhou")
    rest(store, both)
    assert resolved(store.get(OverridePolicy, "default/op"))[1] == "GroupUnknown"


def test_that_a_policy_is_satisfied_is_reported_once() -> None:
    app = deployment({**bound(), REQUIRED_OVERRIDE: "op"})
    running = pods({"node-a": 3, "node-c": 2})
    store, both = at_work(*nodes(), *groups(), weights(), overrides(registry("Hangzhou")), *app, *running)
    rest(store, both)
    assert reasons(store).count("Satisfied") == 2


def test_a_name_that_is_no_label_value_is_reported() -> None:
    store, _ = at_work(*groups(), weights("p" * 64))
    assert any("no application can ask for it" in note.message for note in store.events)


def test_of_two_pods_the_one_that_was_restarted_more_often_goes_first() -> None:
    steady, shaky = nginx_pod("a", "node-a"), nginx_pod("b", "node-a")
    assert isinstance(steady, Pod) and isinstance(shaky, Pod)
    shaky.status.container_statuses = [ContainerStatus(restart_count=3)]
    assert [p.metadata.name for p in eviction_order([steady, shaky], by_ordinal=False)] == ["b", "a"]
