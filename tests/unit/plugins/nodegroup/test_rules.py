"""Rules of node groups: the design's prose, Volcano's charts, points, inheritance."""

from __future__ import annotations

import pytest

from builders.manifests import queue, state_of
from builders.small_cluster import affinity_queue
from muster.engine.core.jobs import Queue
from muster.plugins.nodegroup.rules import QueueRule, points, reading, rule_of


def rule(**lists: tuple[str, ...]) -> QueueRule:
    return QueueRule("nlp", "nlp", preferences=points(lists.get("preferred", ()), ordered=False), **lists)


SITUATIONS = [
    ("only preferred, another group", rule(preferred=("g1",)), "g2", True, False),
    ("only forbidden, another group", rule(forbidden=("g1",)), "g2", True, False),
    ("only avoided, another group", rule(avoided=("g1",)), "g2", True, False),
    ("only avoided, that group", rule(avoided=("g1",)), "g1", True, True),
    ("preferred outside required", rule(required=("g1",), preferred=("g3",)), "g3", False, True),
    ("avoided outside required", rule(required=("g1",), avoided=("g4",)), "g4", False, True),
    ("forbidden and avoided", rule(required=("g1",), forbidden=("g3",), avoided=("g3",)), "g3", False, True),
    ("required", rule(required=("g1",)), "g1", True, True),
    ("required and forbidden", rule(required=("g1",), forbidden=("g1",)), "g1", False, False),
]


@pytest.mark.parametrize(
    ("rule", "group", "prose", "chart"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_prose_and_chart_differ_where_the_digest_says_so(rule: QueueRule, group: str, prose: bool, chart: bool) -> None:
    assert (reading(None)(rule, (group,)) is None) is prose
    for strict in (True, False):
        assert (reading(strict)(rule, (group,)) is None) is chart


def test_a_queue_without_affinity_goes_anywhere_by_the_prose() -> None:
    assert reading(None)(rule(), ("g1",)) is None
    assert reading(None)(rule(), ()) is None


def test_a_queue_without_affinity_goes_nowhere_by_the_strict_chart_and_to_ungrouped_nodes_by_the_loose_one() -> None:
    assert reading(True)(rule(), ("g1",)) is not None
    assert reading(True)(rule(), ()) is not None
    assert reading(False)(rule(), ("g1",)) is not None
    assert reading(False)(rule(), ()) is None


def test_ungrouped_nodes_are_closed_by_a_required_list_only() -> None:
    assert reading(None)(rule(required=("g1",)), ()) is not None
    for soft in (rule(preferred=("g1",)), rule(forbidden=("g1",)), rule(avoided=("g1",))):
        assert reading(None)(soft, ()) is None


def test_the_reason_names_the_rule() -> None:
    refused = reading(None)(QueueRule("nlp", "nlp", required=("nodegroup1", "nodegroup2")), ("nodegroup3",))
    assert refused is not None
    assert refused.message() == "queue nlp requires node group nodegroup1 or nodegroup2, node is in nodegroup3"
    assert (refused.code, refused.resolvable) == ("node-group-required", False)
    refused = reading(None)(QueueRule("nlp", "dept", forbidden=("g1",)), ("g1",))
    assert refused is not None
    assert refused.message() == "queue nlp (as queue dept) must not use node group g1, node is in g1"


@pytest.mark.parametrize(
    ("groups", "expected"), [((), 0), (("g1",), 100), (("g2",), 150), (("g3",), 50), (("g4",), -1), (("g5",), 0)]
)
def test_points(groups: tuple[str, ...], expected: float) -> None:
    scored = rule(required=("g1", "g2", "g4"), preferred=("g2", "g3", "g4"), avoided=("g4",))
    assert scored.score(groups) == expected


def test_in_order_the_first_preferred_group_is_worth_most() -> None:
    assert points(["a", "b", "c", "d"], ordered=True) == {"a": 50, "b": 37.5, "c": 25, "d": 12.5}


def queues(**parents: str) -> dict[str, Queue]:
    made = [queue(name, parent=parent) for name, parent in parents.items()]
    return state_of(*made, affinity_queue("dept", required=["g1"], parent="root")).queues


def test_a_queue_without_affinity_has_its_nearest_ancestors() -> None:
    found = queues(team="dept", person="team", root="")
    inherited = rule_of(found["person"], found, inherits=True, ordered=False)
    assert (inherited.source, inherited.required) == ("dept", ("g1",))
    assert rule_of(found["person"], found, inherits=False, ordered=False).is_empty


def test_parents_in_a_circle_end_the_search() -> None:
    found = queues(a="b", b="a")
    assert rule_of(found["a"], found, inherits=True, ordered=False).is_empty
