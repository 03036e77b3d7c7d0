"""kube-scheduler's scores, with its own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders.filter_clusters import by_node, plugin, session, task
from builders.manifests import node, pod, state_of, typed
from muster.engine.core.hooks import Batch, NodeScorer
from muster.engine.core.nodes import MoveKind
from muster.engine.core.state import State
from muster.plugins.nodeorder import NodeOrder
from muster.plugins.predicates import Predicates


def terms(world: State, **weights: Any) -> dict[str, NodeScorer]:
    order = plugin(NodeOrder, **{f"{name}__weight": weight for name, weight in weights.items()})
    assert isinstance(order, NodeOrder)
    session(world, order, plugin(Predicates))
    return {term.term: term for term in order.scorers()}


def score(world: State, term: str, weight: int = 1, among: str = "", name: str = "p") -> dict[str, float]:
    """The term's score on every node; the candidates are all nodes, or those of `among` (one letter each)."""
    scorer, asked = terms(world, **{term: weight})[term], task(world, name)
    if scorer.batch(asked) == Batch.SKIP:
        return dict.fromkeys(world.nodes.names, 0.0)
    raw = scorer.raw(asked, world.nodes.everything())
    if scorer.normalised:
        candidates = np.array([not among or n in among for n in world.nodes.names])
        raw = scorer.normalise(asked, raw, candidates)
    return by_node(world, raw.tolist())


def two_nodes(cpu: str | None = None, memory: int | None = None) -> State:
    return state_of(
        node("a", cpu="4", memory=10000), node("b", cpu="6", memory=10000), pod("p", cpu=cpu, memory=memory)
    )


def test_least_requested_rounds_each_share_and_the_mean_down() -> None:
    assert score(two_nodes(cpu="3", memory=5000), "leastrequested") == {"a": 37, "b": 50}
    assert score(two_nodes(cpu="3", memory=5000), "leastrequested", weight=3) == {"a": 111, "b": 150}


def test_most_requested_mirrors_it() -> None:
    assert score(two_nodes(cpu="3", memory=5000), "mostrequested") == {"a": 62, "b": 50}


def test_what_a_node_has_already_counts() -> None:
    world = state_of(
        node("a", cpu="10", memory=20000), pod("old", on="a", cpu="6", memory=5000), pod("p", cpu="3", memory=5000)
    )
    assert score(world, "leastrequested") == {"a": 30}  # cpu 10, memory 50
    assert score(world, "mostrequested") == {"a": 70}
    # shares 0.6 and 0.25, then 0.9 and 0.5: evenness 82, then 80
    assert score(world, "balancedresource") == {"a": 74}


def test_more_than_there_is_scores_0_or_100() -> None:
    world = state_of(node("a", cpu="2", memory=10000), pod("p", cpu="3", memory=5000))
    assert score(world, "leastrequested") == {"a": 25}
    assert score(world, "mostrequested") == {"a": 75}


def test_a_container_without_requests_counts_as_100m_and_200Mi() -> None:
    world = state_of(node("a", cpu="1", memory="400Mi"), pod("p", cpu=None))
    assert score(world, "leastrequested") == {"a": 70}  # cpu 90, memory 50


def test_a_resource_the_node_does_not_offer_takes_no_part() -> None:
    world = state_of(node("a", cpu="4", memory=0), node("b", cpu=0, memory=0), pod("p", cpu="1"))
    assert score(world, "leastrequested") == {"a": 75, "b": 0}
    assert score(world, "mostrequested") == {"a": 25, "b": 0}
    assert score(world, "balancedresource") == {"a": 75, "b": 75}


def test_balanced_is_75_where_evenness_stays_and_less_where_it_suffers() -> None:
    # evenness was 100 on both; shares 0.75 and 0.5 make it 87
    assert score(two_nodes(cpu="3", memory=5000), "balancedresource") == {"a": 68, "b": 75}


def test_balanced_prefers_the_node_that_the_pod_evens_out() -> None:
    world = state_of(
        node("a", cpu="4", memory=10000),
        node("b", cpu="4", memory=10000),
        pod("old", on="a", memory=5000, cpu=None),
        pod("p", cpu="2"),
    )
    assert score(world, "balancedresource") == {"a": 87, "b": 62}


def test_balanced_counts_gpus_where_the_pod_asks_for_them() -> None:
    gpus = {"nvidia.com/gpu": 8}
    world = state_of(
        node("a", cpu="4", memory=10000, resources=gpus),
        node("b", cpu="4", memory=10000),
        pod("p", requests={"cpu": "2", "memory": 5000, "nvidia.com/gpu": 8}),
        pod("q", cpu="2"),
    )
    # shares 0.5, 0.5, 1: standard deviation 0.2357…, evenness 76; without GPUs the two shares are equal
    assert score(world, "balancedresource") == {"a": 63, "b": 75}
    assert score(world, "balancedresource", name="q") == {"a": 62, "b": 62}


def test_balanced_says_nothing_of_a_pod_that_asks_for_nothing() -> None:
    assert score(two_nodes(), "balancedresource") == {"a": 0, "b": 0}


def test_balanced_counts_real_requests_only() -> None:
    world = state_of(
        node("a", cpu="1", memory="1Gi"), pod("old", on="a", cpu=None), pod("p", cpu="500m", memory="512Mi")
    )
    assert score(world, "balancedresource") == {"a": 75}


def preferring(*weights: tuple[int, str]) -> dict[str, Any]:
    given = [
        {"weight": w, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}} for w, key in weights
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": given}}


def test_preferred_node_affinity_is_scaled_to_the_best_candidate() -> None:
    labels = {"x": "1", "y": "1", "z": "1"}
    world = state_of(
        node("a", cpu=4, memory="8Gi", labels={"x": "1"}),
        node("b", cpu=4, memory="8Gi", labels={"y": "1"}),
        node("c", cpu=4, memory="8Gi", labels=labels),
        pod("p", affinity=preferring((2, "x"), (4, "y"), (5, "z")), cpu=None),
    )
    assert score(world, "nodeaffinity") == {"a": 18, "b": 36, "c": 100}
    assert score(world, "nodeaffinity", weight=2) == {"a": 36, "b": 72, "c": 200}
    # over other candidates the scale is theirs, and a better node that is none of them is held to 100
    assert score(world, "nodeaffinity", among="ab") == {"a": 50, "b": 100, "c": 100}


def test_taints_that_a_pod_minds_cost() -> None:
    soft = [{"key": key, "effect": "PreferNoSchedule"} for key in "xy"]
    world = state_of(
        node("a", cpu=4, memory="8Gi"),
        node("b", cpu=4, memory="8Gi", taints=soft[:1]),
        node("c", cpu=4, memory="8Gi", taints=soft),
        pod("p", cpu=None),
    )
    assert score(world, "tainttoleration") == {"a": 100, "b": 50, "c": 0}
    assert score(world, "tainttoleration", weight=3) == {"a": 300, "b": 150, "c": 0}
    assert score(world, "tainttoleration", among="ab") == {"a": 100, "b": 0, "c": 0}


def test_without_such_taints_every_node_has_100() -> None:
    assert score(two_nodes(), "tainttoleration") == {"a": 100, "b": 100}


def test_images_that_lie_there_count() -> None:
    held = [{"names": ["app:latest"], "sizeBytes": 600 * 1024 * 1024}]
    world = state_of(node("a", images=held), node("b"), pod("p", container={"image": "app"}))
    assert score(world, "imagelocality", weight=2) == {"a": 56, "b": 0}


def test_the_default_weights() -> None:
    weights = {name: getattr(term, "weight", None) for name, term in terms(two_nodes()).items()}
    expected = {"leastrequested": 1, "mostrequested": 0, "balancedresource": 1, "nodeaffinity": 2}
    expected |= {"tainttoleration": 3, "imagelocality": 1}
    assert {name: weights[name] for name in expected} == expected


def test_a_weight_of_0_switches_a_term_off() -> None:
    world = two_nodes(cpu="1")
    off = terms(world, **dict.fromkeys(("leastrequested", "balancedresource", "tainttoleration", "imagelocality"), 0))
    assert all(term.batch(task(world, "p")) == Batch.SKIP for term in off.values())


@pytest.mark.parametrize("term", ["leastrequested", "mostrequested", "balancedresource"])
def test_hypothetical_columns_score_as_real_ones_would(term: str) -> None:
    world = state_of(
        node("a", cpu="7", memory=12345),
        node("b", cpu="6", memory=10007),
        pod("p", cpu="700m", memory=1234),
        pod("q", cpu="1"),
    )
    nodes, asked = world.nodes, task(world, "p")
    scorer = terms(world, **{term: 1})[term]
    ahead = scorer.raw(asked, nodes.hypothetical(np.array([1, 1]), asked.shape, MoveKind.ALLOCATE, np.array([1, 2])))
    one_by_one = []
    for _ in range(2):
        nodes.apply(asked.shape, MoveKind.ALLOCATE, [1], 1)
        one_by_one.append(scorer.raw(asked, nodes.everything())[1])
    assert ahead.tolist() == one_by_one


def test_without_predicates_the_load_is_that_of_the_cycles_beginning() -> None:
    world = state_of(node("a", cpu="4", memory=10000), pod("p", cpu="1", memory=1000))
    order = plugin(NodeOrder, balancedresource__weight=0, tainttoleration__weight=0)
    assert isinstance(order, NodeOrder)
    statement = session(world, order).statement()
    before = order.raw(task(world, "p"), world.nodes.everything()).tolist()
    assert before == [82.0]
    statement.allocate([task(world, "p")], [0])
    assert order.raw(task(world, "p"), world.nodes.everything()).tolist() == before
    statement.rollback()
    statement = session(world, order, plugin(Predicates)).statement()
    statement.allocate([task(world, "p")], [0])
    assert order.raw(task(world, "p"), world.nodes.everything()).tolist() == [65.0]


def oversubscribed(*pods: Any) -> State:
    more = {"volcano.sh/oversubscription-cpu": "6000", "volcano.sh/oversubscription-memory": "10000"}
    return state_of(node("a", cpu="4", memory=10000, annotations=more), node("b", cpu="10", memory=20000), *pods)


def test_least_most_and_balanced_do_not_see_oversubscription() -> None:
    world = oversubscribed(pod("p", cpu="3", memory=5000))
    assert score(world, "leastrequested") == {"a": 37, "b": 72}  # cpu 25, memory 50; cpu 70, memory 75
    assert score(world, "mostrequested") == {"a": 62, "b": 27}
    assert score(world, "balancedresource") == {"a": 68, "b": 73}


def test_an_oversubscribed_node_beyond_its_own_allocatable_scores_0_or_100() -> None:
    world = oversubscribed(pod("old", on="a", cpu="5", memory=12000), pod("p", cpu="1", memory=1000))
    assert score(world, "leastrequested")["a"] == 0
    assert score(world, "mostrequested")["a"] == 100


def test_a_node_that_becomes_oversubscribed_later_keeps_its_scores() -> None:
    world = state_of(node("a", cpu="4", memory=10000), node("b", cpu="4", memory=10000), pod("p", cpu="3", memory=5000))
    before = score(world, "leastrequested")
    notes = {"volcano.sh/oversubscription-cpu": "6000"}
    world.nodes.replace(typed(node("a", cpu="4", memory=10000, annotations=notes)))
    assert score(world, "leastrequested") == before
    assert world.nodes.everything().idle[0].tolist() == [10000, 4000]
