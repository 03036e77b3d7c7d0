"""The order in which groups get replicas, and the position of each pod in it."""

from __future__ import annotations

from muster.groups.propagation import PropagationRules
from muster.groups.replica_order import assign_positions, replica_order


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
