"""The filters by required pod affinity and anti-affinity, and by hard topology spread constraints."""

from __future__ import annotations

from typing import Any

from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.engine.pod_rules.affinity import PodIndex
from muster.plugins.predicates.pod_rules import InterPodAffinity, TopologySpread
from oracles.inter_pod import HOST, affinity, app, cluster, host, near, session, spread, task


def _term(state: State) -> InterPodAffinity:
    return InterPodAffinity(session(state).shared(PodIndex))


def _reasons(state: State, name: str = "new") -> dict[str, str]:
    """Node → the code of the reason, or nothing."""
    verdict = _term(state).filter(task(state, name), state.nodes.everything())
    codes = ["", *(reason.code for reason in verdict.reasons)]
    return {node: codes[code] for node, code in zip(state.nodes.names, verdict.code, strict=True)}


ZONES = (host("a", "east"), host("b", "east"), host("c", "west"), host("d"))


def test_affinity_wants_a_matching_pod_in_the_same_domain() -> None:
    state = cluster(*ZONES, app("db", "db", on="a"), app("new", "web", affinity=affinity(required=[near("db")])))
    assert _reasons(state) == {"a": "", "b": "", "c": "pod-affinity", "d": "pod-affinity"}


def test_a_pod_counts_only_if_it_matches_every_affinity_term() -> None:
    both = affinity(required=[near("db"), near("db", HOST, labelSelector={"matchLabels": {"tier": "gold"}})])
    state = cluster(
        *ZONES,
        app("one", "db", on="a"),
        app("other", "x", on="b", labels={"tier": "gold"}),
        app("both", "db", on="c", labels={"tier": "gold"}),
        app("new", "web", affinity=both),
    )
    assert _reasons(state) == {"a": "pod-affinity", "b": "pod-affinity", "c": "", "d": "pod-affinity"}


def test_the_first_pod_of_a_group_that_matches_itself_may_go_wherever_the_label_is() -> None:
    state = cluster(*ZONES, app("new", "web", affinity=affinity(required=[near("web")])))
    assert _reasons(state) == {"a": "", "b": "", "c": "", "d": "pod-affinity"}
    assert _term(state).batch(task(state, "new")) == Batch.SINGLE


def test_it_is_not_the_first_if_a_matching_pod_is_on_a_labelled_node() -> None:
    state = cluster(*ZONES, app("w", "web", on="c"), app("new", "web", affinity=affinity(required=[near("web")])))
    assert _reasons(state) == {"a": "pod-affinity", "b": "pod-affinity", "c": "", "d": "pod-affinity"}
    assert _term(state).batch(task(state, "new")) == Batch.COLUMNS


def test_a_matching_pod_on_a_node_without_the_label_leaves_it_the_first() -> None:
    state = cluster(*ZONES, app("w", "web", on="d"), app("new", "web", affinity=affinity(required=[near("web")])))
    assert _reasons(state) == {"a": "", "b": "", "c": "", "d": "pod-affinity"}


def test_anti_affinity_keeps_out_of_the_domain_and_minds_no_node_without_the_label() -> None:
    state = cluster(*ZONES, app("db", "db", on="a"), app("new", "web", affinity=affinity(anti=[near("db")])))
    assert _reasons(state) == {"a": "pod-anti-affinity", "b": "pod-anti-affinity", "c": "", "d": ""}


def test_anti_affinity_of_a_pod_on_a_node_holds_against_others() -> None:
    state = cluster(*ZONES, app("loner", "x", on="c", affinity=affinity(anti=[near("web")])), app("new", "web"))
    assert _reasons(state) == {"a": "", "b": "", "c": "existing-anti-affinity", "d": ""}
    assert _term(state).batch(task(state, "new")) == Batch.COLUMNS


def test_the_pods_own_rules_are_named_before_the_others() -> None:
    loner = app("loner", "db", on="a", affinity=affinity(anti=[near("web", HOST)]))
    state = cluster(*ZONES, loner, app("new", "web", affinity=affinity(anti=[near("db", HOST)])))
    assert _reasons(state)["a"] == "pod-anti-affinity"


def test_only_missing_affinity_is_beyond_the_help_of_evictions() -> None:
    state = cluster(*ZONES, app("db", "db", on="a"), app("new", "web", affinity=affinity(required=[near("db")])))
    verdict = _term(state).filter(task(state, "new"), state.nodes.everything())
    assert [(r.text, r.resolvable) for r in verdict.reasons] == [
        ("node(s) didn't match pod affinity rules", False),
        ("node(s) didn't match pod anti-affinity rules", True),
        ("node(s) didn't satisfy existing pods anti-affinity rules", True),
    ]


def test_pods_that_repel_each_other_by_host_go_one_to_a_node() -> None:
    def how(key: str, *nodes: Any) -> Batch:
        state = cluster(*nodes, app("new", "web", affinity=affinity(anti=[near("web", key)])))
        return _term(state).batch(task(state, "new"))

    assert how(HOST, *ZONES) == Batch.ONCE
    assert how("zone", *ZONES) == Batch.SINGLE
    assert how(HOST, *ZONES, host("e", labels={})) == Batch.SINGLE, "a node without the label takes any number"
    assert how(HOST, *ZONES, host("e", labels={HOST: "a"})) == Batch.SINGLE, "two nodes share a hostname"


def test_a_pod_that_nothing_concerns_any_more_is_skipped() -> None:
    loner = app("loner", "x", on="c", affinity=affinity(anti=[near("web")]))
    state = cluster(*ZONES, loner, app("new", "web"))
    cycle = session(state)
    term = InterPodAffinity(cycle.shared(PodIndex))
    assert term.batch(task(state, "new")) == Batch.COLUMNS
    cycle.statement().evict(task(state, "loner"), None, "preempt")
    assert term.batch(task(state, "new")) == Batch.SKIP


def test_label_keys_narrow_a_term_to_pods_of_the_same_or_of_another_value() -> None:
    def refused(**keys: list[str]) -> list[str]:
        term = near("web", HOST, **keys)
        state = cluster(
            *ZONES,
            app("old", "web", on="a", labels={"version": "1"}),
            app("same", "web", on="b", labels={"version": "2"}),
            app("new", "web", labels={"version": "2"}, affinity=affinity(anti=[term])),
        )
        return [node for node, why in _reasons(state).items() if why]

    assert refused() == ["a", "b"]
    assert refused(matchLabelKeys=["version"]) == ["b"]
    assert refused(mismatchLabelKeys=["version"]) == ["a"]
    assert refused(matchLabelKeys=["absent"]) == ["a", "b"]


def test_a_selector_that_is_absent_means_no_pod_and_an_empty_one_every_pod() -> None:
    def refused(term: dict[str, Any]) -> list[str]:
        state = cluster(*ZONES, app("x", "x", on="a"), app("new", "web", affinity=affinity(anti=[term])))
        return [node for node, why in _reasons(state).items() if why]

    assert refused({"topologyKey": HOST}) == []
    assert refused({"topologyKey": HOST, "labelSelector": {}}) == ["a"]


def test_terms_that_cannot_be_read_refuse_only_that_pod() -> None:
    bad = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
    state = cluster(
        *ZONES,
        app("old", "y", on="a", affinity=affinity(anti=[bad])),
        app("new", "x", affinity=affinity(anti=[bad])),
        app("ok", "z"),
    )
    assert set(_reasons(state).values()) == {"bad-object"}
    assert set(_reasons(state, "ok").values()) == {""}


def test_a_slice_of_nodes_is_answered_as_the_whole() -> None:
    state = cluster(*ZONES, app("db", "db", on="a"), app("new", "web", affinity=affinity(required=[near("db")])))
    term = _term(state)
    whole = term.filter(task(state, "new"), state.nodes.everything()).code
    some = state.nodes.everything().index[[2, 0, 2]]
    assert term.filter(task(state, "new"), state.nodes.some(some)).code.tolist() == whole[some].tolist()


def _spread_term(state: State) -> TopologySpread:
    return TopologySpread(session(state).shared(PodIndex))


def _fits(state: State) -> str:
    """The names of the nodes that take the pod; a node that misses a label in brackets."""
    verdict = _spread_term(state).filter(task(state, "new"), state.nodes.everything())
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
    verdict = _spread_term(state).filter(task(state, "new"), state.nodes.everything())
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
    assert _spread_term(other).batch(task(other, "new")) == Batch.COLUMNS
    assert _spread_term(state).batch(task(state, "new")) == Batch.SINGLE


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
    assert fits(spread("web", skew=0), spread("web", "rack")) == "", "the skew is reported before the missing rack"
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
        app("v", "web", on="a", terminating=True),
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
    assert _spread_term(state).batch(task(state, "new")) == Batch.SKIP
    assert _fits(state) == "abxyz"


def test_a_constraint_that_cannot_be_read_refuses_the_pod() -> None:
    bad = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
    state = _state({}, spread(None, **bad))
    verdict = _spread_term(state).filter(task(state, "new"), state.nodes.everything())
    assert verdict.code.all() and verdict.reasons[0].code == "bad-object"
