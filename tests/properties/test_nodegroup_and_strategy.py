"""What holds for nodegroup and resource-strategy-fit whatever the cluster: scopes are honest, formulas are monotone."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import state_of
from builders.small_cluster import (
    affinity_queue,
    grouped_node,
    member_pod,
    node_group,
    option,
    pod_group,
    session_of,
    task,
)
from muster.engine.core.hooks import Batch, NodeFilter, NodeScorer
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.model.meta import Object
from muster.plugins.nodegroup import NodeGroup
from muster.plugins.resource_strategy_fit import ResourceStrategyFit
from strategies.profiles import examples

GROUPS = ("g1", "g2", "g3", "edge")
names = st.lists(st.sampled_from(GROUPS), unique=True, max_size=3)
amounts = st.integers(0, 8)
strategies = st.sampled_from(["MostAllocated", "LeastAllocated"])


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Nodes in label groups and NodeGroup objects, a queue with some rule, pods running and waiting."""
    size = draw(st.integers(1, 6))
    nodes = [
        grouped_node(
            f"n{i}",
            draw(st.sampled_from(("", *GROUPS[:3]))),
            cpu=str(draw(amounts)),
            resources={"nvidia.com/gpu": str(draw(amounts))},
        )
        for i in range(size)
    ]
    edge = node_group("edge", nodes=[f"n{i}" for i in range(size) if draw(st.booleans())])
    limits = json.dumps({"g1": {"cpu": draw(amounts)}})
    notes = {"volcano.sh/nodegroup-resource-limits": limits} if draw(st.booleans()) else {}
    rule = affinity_queue(
        "q", required=draw(names), preferred=draw(names), forbidden=draw(names), avoided=draw(names), annotations=notes
    )
    pods = [member_pod(f"r{i}", "j", on=f"n{i}", cpu=str(draw(amounts))) for i in range(size)]
    waiting = member_pod(
        "w", "j", cpu=str(draw(st.integers(1, 4))), nvidia_com__gpu=draw(st.sampled_from([None, "1", "3"]))
    )
    return [*nodes, edge, rule, pod_group("j", "q"), *pods, waiting]


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    strict = draw(st.sampled_from([{}, {"strict": True}, {"strict": False}]))
    sra = {
        "policy": "retention, proportional",
        "resources": "nvidia.com/gpu",
        "retention": {"weight": draw(st.integers(0, 5))},
    }
    resources = {
        "cpu": {"type": draw(strategies), "weight": draw(st.integers(1, 4))},
        "nvidia.com/*": {"type": draw(strategies), "weight": draw(st.integers(1, 4))},
    }
    return session_of(
        state_of(*draw(clusters())),
        option("nodegroup", strict),
        option("resource-strategy-fit", {"resources": resources, "sra": sra}),
    )


def terms(session: Session) -> tuple[list[NodeFilter], list[NodeScorer]]:
    filters = [term for _, term in session.placement.filters]
    return filters, [term for _, term in session.placement.scorers]


@given(sessions(), st.data())
@examples(60)
def test_a_slice_has_the_answers_of_the_whole(session: Session, data: st.DataObject) -> None:
    nodes, asker = session.state.nodes, task(session.state, "w")
    index = np.array(data.draw(st.lists(st.integers(0, len(nodes) - 1), max_size=8)), np.int64)
    whole, part = nodes.everything(), nodes.some(index)
    filters, scorers = terms(session)
    for filter_ in filters:
        assert filter_.filter(asker, part).code.tolist() == filter_.filter(asker, whole).code[index].tolist()
    for scorer in scorers:
        assert scorer.raw(asker, part).tolist() == scorer.raw(asker, whole)[index].tolist()


@given(sessions(), st.integers(1, 3))
@examples(40)
def test_hypothetical_copies_have_the_answers_of_real_ones(session: Session, copies: int) -> None:
    nodes, asker = session.state.nodes, task(session.state, "w")
    index = np.arange(len(nodes))
    thought = nodes.hypothetical(index, asker.shape, MoveKind.ALLOCATE, np.full(len(nodes), copies))
    batched_filters = [f for f in terms(session)[0] if f.batch(asker) == Batch.COLUMNS]
    batched_scorers = [s for s in terms(session)[1] if s.batch(asker) == Batch.COLUMNS]
    expected_codes = [f.filter(asker, thought).code.tolist() for f in batched_filters]
    expected_scores = [s.raw(asker, thought).tolist() for s in batched_scorers]
    for _ in range(copies):
        nodes.apply(asker.shape, MoveKind.ALLOCATE, index.tolist(), 1)
    real = nodes.everything()
    assert [f.filter(asker, real).code.tolist() for f in batched_filters] == expected_codes
    assert [s.raw(asker, real).tolist() for s in batched_scorers] == expected_scores


@given(clusters(), st.integers(1, 3))
@examples(60)
def test_packing_rises_and_spreading_falls_with_load_until_the_node_is_full(cluster: list[Object], more: int) -> None:
    for type_, sign in (("MostAllocated", 1), ("LeastAllocated", -1)):
        session = session_of(
            state_of(*cluster), option("resource-strategy-fit", {"resources": {"cpu": {"type": type_}}})
        )
        plugin, asker = session.plugins[0], task(session.state, "w")
        assert isinstance(plugin, ResourceStrategyFit)
        nodes = session.state.nodes
        before = plugin.strategy.raw(asker, nodes.everything())
        index = np.arange(len(nodes))
        loaded = nodes.hypothetical(index, asker.shape, MoveKind.ALLOCATE, np.full(len(nodes), more))
        after = plugin.strategy.raw(asker, loaded)
        request = asker.shape.amounts["cpu"]
        fits = loaded.used[0] + request <= loaded.alloc[0]
        assert (sign * (after - before)[fits] > 0).all()
        assert (after[~fits] == 0).all()


@given(clusters(), names, names)
@examples(60)
def test_by_the_prose_soft_lists_open_and_close_nothing(
    cluster: list[Object], preferred: list[str], avoided: list[str]
) -> None:
    plain = [o for o in cluster if o.kind != "Queue"]
    verdicts = []
    for soft in ({}, {"preferred": preferred, "avoided": avoided}):
        rule = affinity_queue("q", required=["g1", "edge"], forbidden=["g2"], **soft)
        session = session_of(state_of(*plain, rule), option("nodegroup"))
        plugin = session.plugins[0]
        assert isinstance(plugin, NodeGroup)
        verdicts.append(plugin.filter(task(session.state, "w"), session.state.nodes.everything()).fits.tolist())
    assert verdicts[0] == verdicts[1]


@given(sessions())
@examples(40)
def test_the_account_of_limits_is_undone_exactly(session: Session) -> None:
    plugin = session.plugins[0]
    assert isinstance(plugin, NodeGroup)
    asker, nodes = task(session.state, "w"), session.state.nodes.everything()
    before = plugin.limits.filter(asker, nodes).code.tolist()
    statement = session.statement()
    statement.allocate([asker], [0])
    statement.discard()
    assert plugin.limits.filter(asker, session.state.nodes.everything()).code.tolist() == before


@given(clusters(), st.integers(1, 5), st.integers(1, 5))
@examples(60)
def test_with_equal_weights_the_strategy_is_binpacks_score(cluster: list[Object], cpu: int, gpu: int) -> None:
    packs = {"type": "MostAllocated"}
    session = session_of(
        state_of(*cluster),
        option(
            "resource-strategy-fit",
            {"resources": {"cpu": {**packs, "weight": cpu}, "nvidia.com/gpu": {**packs, "weight": gpu}}},
        ),
        option(
            "binpack",
            {
                "binpack.weight": 10,
                "binpack.cpu": cpu,
                "binpack.memory": 0,
                "binpack.resources": "nvidia.com/gpu",
                "binpack.resources.nvidia.com/gpu": gpu,
            },
        ),
    )
    asker, nodes = task(session.state, "w"), session.state.nodes.everything()
    ours, _, theirs = (term.raw(asker, nodes) for _, term in session.placement.scorers)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
