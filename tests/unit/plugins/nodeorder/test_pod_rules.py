"""The scores of preferred pod affinity and of soft topology spread constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.engine.pod_rules.affinity import PodIndex
from muster.model.batch import ReplicaSet
from muster.model.core import Node
from muster.model.kinds import decode_as
from muster.plugins.nodeorder.pod_rules import PodAffinity, TopologySpread
from oracles.inter_pod import HOST, affinity, app, cluster, host, near, session, spread, task

ZONES = (host("a", "east"), host("b", "east"), host("c", "west"), host("d"))


def _scores(state: State, weight: int = 1, without: str = "", hard: int = 0) -> list[float]:
    term = PodAffinity(weight, session(state).shared(PodIndex), hard)
    raw = term.raw(task(state, "new"), state.nodes.everything())
    candidates = np.array([name not in without for name in state.nodes.names])
    return term.normalise(task(state, "new"), raw, candidates).tolist()


def test_nodes_near_the_pods_it_likes_score_most() -> None:
    state = cluster(*ZONES, app("db", "db", on="a"), app("new", "web", affinity=affinity(preferred=[(5, near("db"))])))
    assert _scores(state) == [100, 100, 0, 0]
    assert _scores(state, weight=2) == [200, 200, 0, 0]


def test_nodes_near_the_pods_it_avoids_score_least() -> None:
    state = cluster(*ZONES, app("db", "db", on="a"), app("new", "web", affinity=affinity(avoided=[(5, near("db"))])))
    assert _scores(state) == [0, 0, 100, 100]


def test_weights_add_up_per_pod_and_are_stretched_between_the_least_and_the_most() -> None:
    wishes = affinity(preferred=[(8, near("db")), (2, near("cache", HOST))], avoided=[(5, near("noise"))])
    state = cluster(
        *ZONES,
        app("db", "db", on="a"),
        app("cache", "cache", on="a"),
        app("cache-2", "cache", on="c"),
        app("noise", "noise", on="c"),
        app("new", "web", affinity=wishes),
    )
    # a 10, b 8, c 2 − 5 = −3, d 0; between −3 and 10
    assert _scores(state) == [100, 84, 0, 23]


def test_the_range_is_taken_over_the_candidates_and_the_others_stay_within_it() -> None:
    state = cluster(
        *ZONES,
        app("x", "db", on="a"),
        app("y", "db", on="a"),
        app("z", "db", on="b"),
        app("new", "web", affinity=affinity(preferred=[(1, near("db", HOST))])),
    )
    assert _scores(state) == [100, 50, 0, 0]
    assert _scores(state, without="a") == [100, 100, 0, 0]


def test_pods_on_nodes_draw_and_drive_away_what_they_prefer_and_avoid() -> None:
    state = cluster(
        *ZONES,
        app("fan", "x", on="a", affinity=affinity(preferred=[(4, near("web"))])),
        app("foe", "y", on="c", affinity=affinity(avoided=[(4, near("web"))])),
        app("new", "web"),
    )
    assert _scores(state) == [100, 100, 0, 50]


def test_a_required_affinity_of_a_pod_on_a_node_attracts_only_with_a_hard_weight() -> None:
    state = cluster(
        *ZONES,
        app("web-0", "web", on="a", affinity=affinity(required=[near("web", HOST)])),
        app("fan", "x", on="c", affinity=affinity(preferred=[(2, near("web", HOST))])),
        app("new", "web"),
    )
    assert _scores(state) == [0, 0, 100, 0]
    assert _scores(state, hard=1) == [50, 0, 100, 0]
    assert _scores(state, hard=4) == [100, 0, 50, 0]


def test_equal_nodes_all_score_nothing() -> None:
    state = cluster(
        host("a", "z"),
        host("b", "z"),
        app("db", "db", on="a"),
        app("new", "w", affinity=affinity(preferred=[(9, near("db"))])),
    )
    assert _scores(state) == [0, 0]


def test_terms_reach_other_namespaces_only_when_they_name_them() -> None:
    wish = affinity(preferred=[(1, near("db", HOST))])
    state = cluster(*ZONES, app("db", "db", on="a", namespace="other"), app("new", "web", affinity=wish))
    assert _scores(state) == [0, 0, 0, 0]
    wish = affinity(preferred=[(1, near("db", HOST, namespaces=["other"]))])
    state = cluster(*ZONES, app("db", "db", on="a", namespace="other"), app("new", "web", affinity=wish))
    assert _scores(state) == [100, 0, 0, 0]


def test_how_a_run_may_be_placed() -> None:
    def how(new: dict[str, object], *others: object, weight: int = 1) -> Batch:
        state = cluster(
            *ZONES, app("asks", "q", affinity=affinity(anti=[near("nobody")])), *others, app("new", "web", **new)
        )  # type: ignore[arg-type]
        return PodAffinity(weight, session(state).shared(PodIndex)).batch(task(state, "new"))

    db = app("db", "db", on="a")
    assert how({}) == Batch.SKIP
    assert how({"affinity": affinity(preferred=[(1, near("db"))])}) == Batch.SKIP, "no such pod is anywhere"
    assert how({"affinity": affinity(preferred=[(1, near("db"))])}, db) == Batch.COLUMNS, "it does not draw itself"
    assert how({"affinity": affinity(avoided=[(1, near("web"))])}) == Batch.SINGLE, "the first one changes it"
    assert how({"affinity": affinity(avoided=[(1, near("web"))])}, weight=0) == Batch.SKIP


def _spread_scores(state: State, without: str = "", weight: int = 1) -> list[float]:
    """Of the nodes not named in `without`."""
    term = TopologySpread(weight, session(state).shared(PodIndex))
    raw = term.raw(task(state, "new"), state.nodes.everything())
    candidates = np.array([name not in without for name in state.nodes.names])
    return term.normalise(task(state, "new"), raw, candidates)[candidates].tolist()


def _state(nodes: list[Node], counts: dict[str, int], *constraints: dict[str, Any], **more: Any) -> State:
    running = [app(f"{on}-{i}", "foo", on=on) for on, count in counts.items() for i in range(count)]
    return cluster(*nodes, *running, app("new", "foo", topologySpreadConstraints=list(constraints), **more))


HOSTS = [host(name) for name in "abcd"]
ZONED = [host("a", "1"), host("b", "1"), host("x", "2"), host("y", "2")]
BY_HOST, BY_ZONE = spread("foo", HOST, soft=True), spread("foo", soft=True)


@pytest.mark.parametrize(
    ("nodes", "counts", "constraints", "without", "expected"),
    [
        (HOSTS[:2], {}, [BY_HOST], "", [100, 100]),
        (HOSTS[:2], {"a": 2, "b": 1}, [BY_HOST], "b", [100]),
        (HOSTS[:2], {"a": 1, "b": 1}, [BY_HOST], "", [100, 100]),
        (HOSTS, {"a": 2, "b": 1, "d": 3}, [BY_HOST], "", [20, 60, 100, 0]),
        (HOSTS, {"a": 2, "b": 1, "d": 3}, [spread(None, HOST, soft=True)], "", [100, 100, 100, 100]),
        (HOSTS, {"a": 2, "b": 1, "d": 3}, [spread("foo", HOST, 2, soft=True)], "", [33, 66, 100, 16]),
        (HOSTS, {"a": 4, "b": 3, "c": 2, "d": 1}, [spread("foo", HOST, 3, soft=True)], "", [44, 66, 77, 100]),
        (ZONED, {"a": 4, "b": 2, "x": 1, "y": 3}, [BY_HOST], "y", [33, 83, 100]),
        (ZONED, {"a": 4, "b": 2, "x": 1, "y": 3}, [BY_ZONE], "y", [75, 75, 100]),
        (ZONED, {"a": 2, "b": 1, "x": 2, "y": 4}, [BY_ZONE, BY_HOST], "by", [100, 63]),
    ],
)
def test_fewer_pods_score_higher(
    nodes: list[Node], counts: dict[str, int], constraints: list[dict[str, Any]], without: str, expected: list[float]
) -> None:
    assert _spread_scores(_state(nodes, counts, *constraints), without) == expected


def test_a_node_without_the_label_scores_nothing() -> None:
    nodes = [host("a"), host("b", labels={"n": "b"}), host("x"), host("y")]
    assert _spread_scores(_state(nodes, {"a": 4, "b": 2, "x": 1, "y": 3}, BY_HOST), "y") == [16, 0, 100]


def test_the_weight_multiplies_the_score() -> None:
    assert _spread_scores(_state(HOSTS, {"a": 2, "b": 1, "d": 3}, BY_HOST), weight=2) == [40, 120, 200, 0]


def test_pods_of_other_namespaces_and_pods_being_deleted_do_not_count() -> None:
    state = cluster(
        *HOSTS[:2],
        app("w", "foo", on="a", namespace="other"),
        app("v", "foo", on="a", terminating=True),
        app("u", "foo", on="b"),
        app("new", "foo", topologySpreadConstraints=[BY_HOST]),
    )
    assert _spread_scores(state) == [100, 0]


def _owned(nodes: list[Node], counts: dict[str, int], known: bool = True) -> State:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    meta = {"name": "rs", "namespace": "default"}
    replicas = decode_as(ReplicaSet, {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": "foo"}}}})
    running = [app(f"{on}-{i}", "foo", on=on) for on, count in counts.items() for i in range(count)]
    return cluster(*nodes, *running, *([replicas] if known else []), app("new", "foo", owners=[owner]))


def test_pods_of_a_replica_set_are_spread_without_being_asked() -> None:
    # Nodes without a zone: as one constraint by host with a skew of 3.
    assert _spread_scores(_owned(HOSTS, {"a": 4, "b": 3, "c": 2, "d": 1})) == [44, 66, 77, 100]


def test_default_spreading_does_not_ignore_nodes_that_lack_a_zone() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [host("a", labels={HOST: "a", zone: "1"}), host("b", labels={HOST: "b"})]
    # a: 1·ln 4 + 2 by host, 1·ln 4 + 4 by zone = 8.77; b: 2 by host alone
    assert _spread_scores(_owned(nodes, {"a": 1})) == [22, 100]


def test_without_the_replica_set_itself_nothing_is_spread_by_default() -> None:
    state = _owned(HOSTS, {"a": 4}, known=False)
    assert TopologySpread(1, session(state).shared(PodIndex)).batch(task(state, "new")) == Batch.SKIP


def test_many_domains_are_distinguished_like_few() -> None:
    """More node classes than the table has entries for."""
    nodes = [host(f"n{i}", f"z{i % 70}") for i in range(140)]
    running = [app(f"p{i}", "foo", on=f"n{i % 7}", labels={"k": "v"}) for i in range(420)]
    both = [BY_ZONE, BY_HOST]
    state = cluster(*nodes, *running, app("new", "foo", topologySpreadConstraints=both))
    scores = dict(zip(state.nodes.names, _spread_scores(state), strict=True))
    assert scores["n8"] == 100 and scores["n0"] == 0 and scores["n70"] == scores["n76"] and 0 < scores["n70"] < 100


def test_how_a_run_with_spread_constraints_may_be_placed() -> None:
    def how(of: str, weight: int = 1) -> Batch:
        state = cluster(*HOSTS, app("new", of, topologySpreadConstraints=[BY_HOST]))
        return TopologySpread(weight, session(state).shared(PodIndex)).batch(task(state, "new"))

    assert how("foo") == Batch.SINGLE
    assert how("other") == Batch.COLUMNS
    assert how("foo", weight=0) == Batch.SKIP
