"""The index of pods: built only when asked, current after every move and every undo."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.core.hooks import Batch
from muster.engine.core.jobs import Status
from muster.engine.core.state import State
from muster.engine.pod_rules.affinity import PodIndex
from muster.model.core import Namespace
from muster.model.meta import ObjectMeta
from muster.plugins.nodeorder.pod_rules import PodAffinity
from muster.plugins.nodeorder.pod_rules import TopologySpread as SpreadScore
from muster.plugins.predicates.pod_rules import InterPodAffinity, TopologySpread
from oracles.inter_pod import (
    HOST,
    ZONE,
    affinity,
    affinity_code,
    app,
    cluster,
    host,
    near,
    session,
    spread,
    spread_code,
    task,
)
from strategies.profiles import examples


def test_nothing_is_built_when_no_pod_asks_about_others() -> None:
    state = cluster(host("a"), app("web", "web", on="a"), app("new", "web"))
    index = session(state).shared(PodIndex)
    assert index.has_no_rules
    assert index.signature(task(state, "new")) is None
    assert InterPodAffinity(index).batch(task(state, "new")) == Batch.SKIP
    assert TopologySpread(index).batch(task(state, "new")) == Batch.SKIP
    assert PodAffinity(2, index).batch(task(state, "new")) == Batch.SKIP
    assert SpreadScore(2, index).batch(task(state, "new")) == Batch.SKIP


def test_pods_that_no_term_distinguishes_are_one_class() -> None:
    state = cluster(
        host("a"),
        app("x-0", "web", labels={"pod-index": "0"}),
        app("x-1", "web", labels={"pod-index": "1"}),
        app("db", "db"),
        app("asker", "asker", affinity=affinity(anti=[near("web")])),
    )
    index = session(state).shared(PodIndex)
    first, second, other = (index.signature(task(state, name)) for name in ("x-0", "x-1", "db"))
    assert first == second != other


def test_a_pod_pipelined_counts_and_a_pod_evicted_does_not() -> None:
    state = cluster(
        host("a", "east"),
        host("b", "west"),
        app("old", "web", on="a"),
        app("new", "web"),
        app("asker", "asker", affinity=affinity(required=[near("web")])),
    )
    cycle = session(state)
    term = InterPodAffinity(cycle.shared(PodIndex))
    asker = task(state, "asker")
    assert term.filter(asker, state.nodes.everything()).code.tolist() == [0, 1]
    statement = cycle.statement()
    statement.pipeline([task(state, "new")], [1])
    assert term.filter(asker, state.nodes.everything()).code.tolist() == [0, 0]
    statement.evict(task(state, "old"), None, "preempt")
    assert term.filter(asker, state.nodes.everything()).code.tolist() == [1, 0]
    statement.discard()
    assert term.filter(asker, state.nodes.everything()).code.tolist() == [0, 1]


def test_an_index_made_late_knows_what_the_cycle_did_before() -> None:
    state = cluster(
        host("a", "east"),
        host("b", "west"),
        app("old", "web", on="a"),
        app("going", "web", on="a", terminating=True),
        app("new", "web"),
        app("asker", "asker", affinity=affinity(anti=[near("web")])),
    )
    cycle = session(state)
    statement = cycle.statement()
    statement.allocate([task(state, "new")], [1])
    statement.evict(task(state, "old"), None, "preempt")
    codes = InterPodAffinity(PodIndex(cycle)).filter(task(state, "asker"), state.nodes.everything()).code
    assert codes.tolist() == [2, 2], "the pod that was terminating before the cycle is still on its node"


def test_a_term_reaches_the_namespaces_it_names_or_selects() -> None:
    def refused(namespaces: list[str] | None = None, selector: dict[str, object] | None = None) -> list[str]:
        term = near("web", HOST)
        if namespaces is not None:
            term["namespaces"] = namespaces
        if selector is not None:
            term["namespaceSelector"] = selector
        state = cluster(
            *(host(n) for n in ("own", "prod", "test", "unknown")),
            Namespace(metadata=ObjectMeta(name="prod", labels={"stage": "prod"})),
            Namespace(metadata=ObjectMeta(name="test", labels={"stage": "test"})),
            app("own", "web", on="own"),
            *(app("p", "web", on=n, namespace=n) for n in ("prod", "test", "unknown")),
            app("asker", "asker", affinity=affinity(anti=[term])),
        )
        code = (
            InterPodAffinity(session(state).shared(PodIndex))
            .filter(task(state, "asker"), state.nodes.everything())
            .code
        )
        return [state.nodes.names[i] for i in np.flatnonzero(code)]

    assert refused() == ["own"]
    assert refused(["prod"]) == ["prod"]
    assert refused(None, {"matchLabels": {"stage": "test"}}) == ["test"]
    assert refused(["prod"], {"matchLabels": {"stage": "test"}}) == ["prod", "test"]
    assert refused(None, {}) == ["own", "prod", "test", "unknown"]
    assert refused(None, {"matchLabels": {"kubernetes.io/metadata.name": "unknown"}}) == ["unknown"]


_SPECS: list[dict[str, object]] = [
    {},
    {"affinity": affinity(required=[near("a")])},
    {"affinity": affinity(required=[near("a"), near("a", HOST)])},
    {"affinity": affinity(required=[near("b", HOST)])},
    {"affinity": affinity(anti=[near("a", HOST)])},
    {"affinity": affinity(anti=[near("b"), near("a", namespaces=["other"])])},
    {"affinity": affinity(preferred=[(3, near("a"))], avoided=[(5, near("b", HOST))])},
    {"topologySpreadConstraints": [spread("a")]},
    {"topologySpreadConstraints": [spread("b", skew=2, minDomains=3), spread("a", HOST)]},
    {"topologySpreadConstraints": [spread("a", soft=True), spread("a", HOST, soft=True)]},
]


@st.composite
def _clusters(draw: st.DrawFn) -> State:
    zones = draw(st.lists(st.sampled_from(["", "x", "y", "z"]), min_size=2, max_size=5))
    nodes = [host(f"n{i}", zone) for i, zone in enumerate(zones)]
    pods = []
    for i in range(draw(st.integers(2, 9))):
        where = draw(st.sampled_from(["", "", *(n.metadata.name for n in nodes)]))
        pods.append(
            app(
                f"p{i}",
                draw(st.sampled_from("ab")),
                on=where,
                namespace=draw(st.sampled_from(["default", "other"])),
                terminating=bool(where) and draw(st.booleans()),
                **draw(st.sampled_from(_SPECS)),
            )
        )
    return cluster(*nodes, *pods)


@examples(60)
@given(_clusters(), st.data())
def test_after_any_moves_the_index_is_as_built_anew_and_as_read_pod_by_pod(state: State, data: st.DataObject) -> None:
    cycle = session(state)
    index = cycle.shared(PodIndex)
    filters = (InterPodAffinity(index), TopologySpread(index))
    scorers = (PodAffinity(1, index), SpreadScore(1, index))
    anew = PodIndex(cycle)  # is built after all moves
    cycle.ledgers.append(anew)
    statement = cycle.statement()
    view = state.nodes.everything()
    for _ in range(data.draw(st.integers(0, 8))):
        waiting = [t for t in state.tasks.values() if t.status == Status.PENDING]
        running = [t for t in state.tasks.values() if t.status == Status.RUNNING]
        choice = data.draw(st.sampled_from(["allocate", "pipeline", "evict", "undo", "ask"]))
        if choice in ("allocate", "pipeline") and waiting:
            move = statement.allocate if choice == "allocate" else statement.pipeline
            move([data.draw(st.sampled_from(waiting))], [data.draw(st.integers(0, len(state.nodes) - 1))])
        elif choice == "evict" and running:
            statement.evict(data.draw(st.sampled_from(running)), None, "preempt")
        elif choice == "undo":
            statement.rollback(data.draw(st.integers(0, len(statement.moves))))
        elif choice == "ask":
            for term in filters:
                term.filter(data.draw(st.sampled_from(list(state.tasks.values()))), view)
    evicted = {m.task.key for m in statement.moves if m.kind.name == "EVICT"}
    placed = {t.key: t.node for t in state.tasks.values() if t.node >= 0 and t.key not in evicted}
    for t in [t for t in state.tasks.values() if t.pod.metadata.deletion_timestamp is None]:
        codes = [term.filter(t, view).code.tolist() for term in filters]
        nodes = range(len(state.nodes))
        assert codes[0] == [affinity_code(state, t, placed, n) for n in nodes]
        assert codes[1] == [spread_code(state, t, placed, n) for n in nodes]
        assert codes == [term(anew).filter(t, view).code.tolist() for term in (InterPodAffinity, TopologySpread)]
        for scorer, fresh in zip(scorers, (PodAffinity(1, anew), SpreadScore(1, anew)), strict=True):
            assert scorer.raw(t, view).tolist() == fresh.raw(t, view).tolist()


@examples(60)
@given(_clusters())
def test_what_a_batch_promises_holds(state: State) -> None:
    """COLUMNS: such a pod on a node it may take changes no answer for the next. ONCE: only that node's."""
    cycle = session(state)
    term = InterPodAffinity(cycle.shared(PodIndex))
    view = state.nodes.everything()
    for t in [t for t in state.tasks.values() if t.status == Status.PENDING]:
        how, before = term.batch(t), term.filter(t, view).code
        for n in np.flatnonzero(before == 0):
            statement = cycle.statement()
            statement.allocate([t], [int(n)])
            after = term.filter(t, view).code
            statement.discard()
            if how in (Batch.SKIP, Batch.COLUMNS):
                assert (after == 0).tolist() == (before == 0).tolist()
            elif how == Batch.ONCE:
                expected = before == 0
                expected[n] = False
                assert (after == 0).tolist() == expected.tolist()


def test_zone_labels_that_are_missing_take_no_part() -> None:
    state = cluster(
        host("a", "x"), host("b"), app("p", "web", on="b"), app("q", "q", affinity=affinity(anti=[near("web", ZONE)]))
    )
    term = InterPodAffinity(session(state).shared(PodIndex))
    assert term.filter(task(state, "q"), state.nodes.everything()).code.tolist() == [0, 0]
