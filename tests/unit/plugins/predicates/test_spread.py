"""Topology spread constraints that must hold, node by node."""

from __future__ import annotations

from typing import Any

from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.engine.pod_rules.affinity import PodIndex
from muster.plugins.predicates.spread import TopologySpread
from oracles.inter_pod import HOST, app, cluster, host, session, spread, task


def _term(state: State) -> TopologySpread:
    return TopologySpread(session(state).shared(PodIndex))


def _fits(state: State) -> str:
    """The names of the nodes that take the pod; a node that misses a label in brackets."""
    verdict = _term(state).filter(task(state, "new"), state.nodes.everything())
    shown = ["{}", "({})", ""]
    return "".join(shown[code].format(name) for name, code in zip(state.nodes.names, verdict.code, strict=True))


def _state(counts: dict[str, int], *constraints: dict[str, Any], **spec: Any) -> State:
    """Nodes a and b in one zone, x and y in another, z in none; so many pods of the app `web` on each."""
    nodes = (host("a", "1"), host("b", "1"), host("x", "2"), host("y", "2"), host("z"))
    running = [app(f"{on}-{i}", "web", on=on) for on, count in counts.items() for i in range(count)]
    return cluster(*nodes, *running, app("new", "web", topologySpreadConstraints=list(constraints), **spec))


def test_a_domain_may_have_so_many_more_than_the_emptiest() -> None:
    assert _fits(_state({"a": 1}, spread("web"))) == "xy(z)"
    assert _fits(_state({"a": 1}, spread("web", skew=2))) == "abxy(z)"
    assert _fits(_state({"a": 1, "b": 1, "x": 2}, spread("web"))) == "abxy(z)"


def test_nodes_without_the_label_neither_count_nor_fit() -> None:
    state = _state({"z": 5, "a": 1}, spread("web"))
    assert _fits(state) == "xy(z)"
    verdict = _term(state).filter(task(state, "new"), state.nodes.everything())
    assert [(r.text, r.resolvable) for r in verdict.reasons] == [
        ("node(s) didn't match pod topology spread constraints (missing required label)", False),
        ("node(s) didn't match pod topology spread constraints", True),
    ]


def test_a_pod_that_its_own_selector_does_not_mean_adds_nothing() -> None:
    state = _state({"a": 1}, spread("web"))
    other = cluster(
        host("a", "1"),
        host("x", "2"),
        app("w", "web", on="a"),
        app("new", "y", topologySpreadConstraints=[spread("web")]),
    )
    assert _fits(other) == "ax"
    assert _term(other).batch(task(other, "new")) == Batch.COLUMNS
    assert _term(state).batch(task(state, "new")) == Batch.SINGLE


def test_every_constraint_must_hold() -> None:
    both = (spread("web"), spread("web", HOST))
    assert _fits(_state({"a": 1, "x": 1}, *both)) == "by(z)"


def test_the_first_constraint_that_fails_gives_the_reason() -> None:
    def fits(*constraints: dict[str, Any]) -> str:
        racks = [
            host("a", "1"),
            host("x", labels={"zone": "2", "rack": "r"}),
            host("y", labels={"zone": "3", "rack": "r"}),
        ]
        full = [app("w", "web", on="a")]
        return _fits(cluster(*racks, *full, app("new", "web", topologySpreadConstraints=list(constraints))))

    # Node a has no rack, so it does not count; its zone has none then, and only the rack is missing.
    assert fits(spread("web"), spread("web", "rack")) == "(a)xy"
    assert fits(spread("web", skew=0), spread("web", "rack")) == "", "the skew is told before the missing rack"
    assert fits(spread("web", "rack"), spread("web", skew=0)) == "(a)"


def test_with_fewer_domains_than_asked_for_the_least_is_nothing() -> None:
    assert _fits(_state({"a": 1, "x": 1}, spread("web", minDomains=2))) == "abxy(z)"
    assert _fits(_state({"a": 1, "x": 1}, spread("web", minDomains=3))) == "(z)"


def test_nodes_that_the_pod_may_not_use_do_not_count_unless_requested() -> None:
    hosts = {"nodeSelector": {"zone": "1"}}
    # Only zone 1 counts: it is its own emptiest domain, and node x lies in a domain that has no count.
    assert _fits(_state({"a": 3}, spread("web"), **hosts)) == "abxy(z)"
    assert _fits(_state({"a": 3}, spread("web", nodeAffinityPolicy="Ignore"), **hosts)) == "xy(z)"


def test_tainted_nodes_count_unless_excluded() -> None:
    def fits(policy: str) -> str:
        taints = [{"key": "k", "effect": "NoSchedule"}]
        state = cluster(
            host("a", "1"),
            host("x", "2", taints=taints),
            app("w", "web", on="a"),
            app("new", "web", topologySpreadConstraints=[spread("web", nodeTaintsPolicy=policy)]),
        )
        return _fits(state)

    assert fits("Ignore") == "x"
    assert fits("Honor") == "ax"


def test_pods_of_other_namespaces_and_pods_being_deleted_do_not_count() -> None:
    state = cluster(
        host("a", "1"),
        host("x", "2"),
        app("w", "web", on="a", namespace="other"),
        app("v", "web", on="a", leaving=True),
        app("new", "web", topologySpreadConstraints=[spread("web")]),
    )
    assert _fits(state) == "ax"


def test_label_keys_count_pods_of_the_same_value_only() -> None:
    def fits(**keys: list[str]) -> str:
        state = cluster(
            host("a", "1"),
            host("x", "2"),
            app("w", "web", on="a", labels={"version": "1"}),
            app("new", "web", labels={"version": "2"}, topologySpreadConstraints=[spread("web", **keys)]),
        )
        return _fits(state)

    assert fits() == "x"
    assert fits(matchLabelKeys=["version"]) == "ax"


def test_an_empty_selector_counts_no_pod_but_the_incoming_one() -> None:
    assert _fits(_state({"a": 3}, spread(""))) == "abxy(z)"
    assert _fits(_state({"a": 3}, spread(None))) == "abxy(z)"


def test_constraints_that_should_only_hold_refuse_no_node() -> None:
    state = _state({"a": 9}, spread("web", soft=True))
    assert _term(state).batch(task(state, "new")) == Batch.SKIP
    assert _fits(state) == "abxyz"


def test_a_constraint_that_cannot_be_read_refuses_the_pod() -> None:
    bad = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
    state = _state({}, spread(None, **bad))
    verdict = _term(state).filter(task(state, "new"), state.nodes.everything())
    assert verdict.code.all() and verdict.reasons[0].code == "bad-object"
