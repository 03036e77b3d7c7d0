"""Preferred pod affinity and anti-affinity as scores."""

from __future__ import annotations

import numpy as np

from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.engine.pod_rules.affinity import PodIndex
from muster.plugins.nodeorder.podaffinity import PodAffinity
from oracles.inter_pod import HOST, affinity, app, cluster, host, near, session, task

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


def test_terms_reach_other_namespaces_only_when_they_say_so() -> None:
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
