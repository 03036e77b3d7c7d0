"""The replica order, and positions in it as deletion costs."""

from __future__ import annotations

from builders.node_groups import (
    bound,
    city_node,
    deployment,
    groups,
    nginx_pod,
    node_group,
    nodes,
    pods,
    store_of,
    weights,
)
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.deletion_cost import (
    LOWEST_COST,
    SEAT,
    WRITE_BURST,
    WRITES_PER_SECOND,
    assign_positions,
    replica_order,
)
from muster.groupctl.controllers.eviction_order import DELETION_COST
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.groups.propagation import PropagationRules
from muster.model.batch import Deployment
from muster.model.core import Pod


def positions(store: MemoryStore) -> dict[str, str]:
    return {key.partition("/")[2]: p.metadata.annotations.get(SEAT, "") for key, p in store.of(Pod).items()}


def rest(controller: PropagationPolicyController) -> int:
    return sum(1 for _ in iter(controller.run, False))


def test_every_pod_gets_a_position_of_its_group_and_the_last_position_is_removed_first() -> None:
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound()), *pods({"node-a": 3, "node-c": 2}))
    rest(PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True))
    found = positions(store)
    assert sorted(found.values()) == ["1", "2", "3", "4", "5"]
    assert {found[f"p-node-a-{i}"] for i in range(3)} == {"1", "3", "5"}
    costs = {key: int(p.metadata.annotations[DELETION_COST]) for key, p in store.of(Pod).items()}
    assert all(costs[f"default/{name}"] == -int(position) for name, position in found.items())


def test_what_is_right_is_not_written_again() -> None:
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound()), *pods({"node-a": 3, "node-c": 2}))
    rest(PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True))
    version = store.version
    rest(PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True))
    assert store.version == version


def test_pods_without_a_position_are_removed_first() -> None:
    apart = [city_node("far", "elsewhere"), nginx_pod("lost", "far")]
    running = pods({"node-a": 2, "node-c": 3})
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound(), 6), *running, *apart)
    rest(PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True))
    notes = store.get(Pod, "default/lost").metadata.annotations
    assert notes[DELETION_COST] == str(LOWEST_COST) and notes[SEAT] == "none"
    assert list(positions(store).values()).count("none") == 2


def test_a_cost_that_somebody_else_wrote_stays() -> None:
    theirs = nginx_pod("dear", "node-a", annotations={DELETION_COST: "100"})
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound()), *pods({"node-a": 2, "node-c": 2}), theirs)
    rest(PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True))
    assert store.get(Pod, "default/dear").metadata.annotations == {DELETION_COST: "100"}


def test_without_being_asked_nothing_is_written_on_pods() -> None:
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound()), *pods({"node-a": 3, "node-c": 2}))
    rest(PropagationPolicyController(store, EvictionQueue(store)))
    assert set(positions(store).values()) == {""}


def test_positions_follow_the_policy() -> None:
    more = [node_group("empty", "nowhere")]
    store = store_of(*nodes(), *groups(), *more, weights(), *deployment(bound(), 2), *pods({"node-a": 1, "node-c": 1}))
    controller = PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True)
    rest(controller)
    assert positions(store) == {"p-node-a-0": "1", "p-node-c-0": "2"}
    entries = [{"nodeGroupNames": [city], "weight": n} for city, n in (("beijing", 3), ("hangzhou", 2))]
    spec = {"staticWeightList": entries}
    store.patch(type(weights()), "default/pp", {"spec": spec})
    rest(controller)
    assert positions(store) == {"p-node-a-0": "2", "p-node-c-0": "1"}
    assert store.get(Deployment, "default/nginx").metadata.annotations == {}


def test_positions_of_a_large_application_are_written_at_a_low_rate() -> None:
    many = pods({"node-a": 600})
    store = store_of(*nodes(), *groups(), weights(), *deployment(bound(), 600), *many)
    controller = PropagationPolicyController(store, EvictionQueue(store), deletion_cost=True)
    rest(controller)
    assert sum(1 for position in positions(store).values() if position) == WRITE_BURST
    again = controller.next_time()
    assert again is not None
    clock = store.clock
    assert isinstance(clock, VirtualClock)
    clock.advance(again)
    rest(controller)
    assert sum(1 for position in positions(store).values() if position) == WRITE_BURST + WRITES_PER_SECOND


def weighted(**weights: int) -> PropagationRules:
    return PropagationRules("StaticWeight", weights=weights)


def test_positions_go_to_groups_as_the_division_grows() -> None:
    assert replica_order(weighted(beijing=2, hangzhou=3), 5) == [
        "hangzhou",
        "beijing",
        "hangzhou",
        "beijing",
        "hangzhou",
    ]
    assert replica_order(weighted(a=0, b=0), 3) == []


def test_ranges_fill_minima_first_and_end_at_the_maxima() -> None:
    ranged = PropagationRules("NumRange", ranges={"a": (0, None), "b": (2, 2), "c": (0, 1)})
    assert replica_order(ranged, 6) == ["b", "b", "a", "c", "a", "a"]
    assert replica_order(PropagationRules("NumRange", ranges={"a": (0, 1)}), 3) == ["a"]


def test_a_pod_keeps_its_position_and_others_take_those_that_are_free() -> None:
    order = ["h", "b", "h", "b", "h"]
    found = assign_positions(order, {"h": ["p1", "p2", "p3"], "b": ["q"]}, {"p2": 1, "q": 3})
    assert found == {"p2": 1, "p1": 3, "p3": 5, "q": 2}


def test_two_pods_with_one_position_are_separated_and_too_many_have_none() -> None:
    assert assign_positions(["a", "a"], {"a": ["p", "q", "r"]}, {"p": 2, "q": 2}) == {"p": 2, "q": 1, "r": None}
