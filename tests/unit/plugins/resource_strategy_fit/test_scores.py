"""Strategy, retention and proportional over a session."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, node, queue, state_of
from builders.small_cluster import member_pod, option, pod_group, session_of, task
from muster.engine.core.hooks import Batch, Verdict
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.model.meta import Object
from muster.plugins.resource_strategy_fit import ResourceStrategyFit
from muster.plugins.resource_strategy_fit.scores import TYPE, WEIGHT


def opened(*objects: Object | Manifest, **arguments: Any) -> tuple[Session, ResourceStrategyFit]:
    state = state_of(queue("default"), pod_group("j"), *objects)
    session = session_of(state, option("resource-strategy-fit", arguments))
    plugin = session.plugins[0]
    assert isinstance(plugin, ResourceStrategyFit)
    return session, plugin


def strategy(session: Session, plugin: ResourceStrategyFit, name: str = "j-0") -> list[float]:
    return plugin.strategy.raw(task(session.state, name), session.state.nodes.everything()).tolist()


def retention(session: Session, plugin: ResourceStrategyFit, name: str) -> list[float]:
    return plugin.retention.raw(task(session.state, name), session.state.nodes.everything()).tolist()


NODES = [
    node("node1", cpu="32", memory="64Gi"),
    node("node2", cpu="16", memory="32Gi", resources={"nvidia.com/t4": "10"}),
    node("node3", cpu="16", memory="32Gi", resources={"nvidia.com/t4": "5", "nvidia.com/a10": "10"}),
]
SRA = {
    "sra.policy": "retention",
    "sra.resources": "nvidia.com/t4, nvidia.com/a10",
    "sra.retention.weight": 2,
    "sra.retention.nvidia.com/t4": 1,
    "sra.retention.nvidia.com/a10": 1,
}


def test_the_designs_retention_table() -> None:
    session, plugin = opened(
        *NODES,
        member_pod("cpu-task-0", "j", cpu="2", memory="4Gi"),
        member_pod("gpu-task-0", "j", cpu="2", memory="4Gi", nvidia_com__t4="2"),
        member_pod("gpu-task-1", "j", cpu="2", memory="4Gi", nvidia_com__t4="1", nvidia_com__a10="2"),
        **SRA,
    )
    assert retention(session, plugin, "cpu-task-0") == [200, 100, 0]
    assert retention(session, plugin, "gpu-task-0") == [0, 100, 0]
    assert retention(session, plugin, "gpu-task-1") == [0, 0, 0]


def test_retention_looks_at_presence_not_at_quantity() -> None:
    session, plugin = opened(
        node("n", resources={"nvidia.com/t4": "1"}), member_pod("j-0", "j", cpu="99", nvidia_com__t4="4"), **SRA
    )
    assert retention(session, plugin, "j-0") == [100]


def test_a_node_that_takes_no_pods_has_no_retention_score() -> None:
    session, plugin = opened(node("n", pods="0"), member_pod("j-0", "j"), **SRA)
    assert retention(session, plugin, "j-0") == [0]


def test_most_and_least_allocated_count_the_pod_itself() -> None:
    objects = [
        node("n", cpu="10", memory="10Gi"),
        member_pod("r", "j", on="n", cpu="2"),
        member_pod("j-0", "j", cpu="1"),
    ]
    session, plugin = opened(*objects, resources={"cpu": {"type": "MostAllocated"}})
    assert strategy(session, plugin) == [pytest.approx(300)]
    session, plugin = opened(*objects, resources={"cpu": {"type": "LeastAllocated"}})
    assert strategy(session, plugin) == [pytest.approx(700)]


def test_only_requested_resources_count_and_pods_if_configured() -> None:
    objects = [node("n", cpu="10", pods="10"), member_pod("j-0", "j", cpu="1")]
    session, plugin = opened(*objects, resources={"cpu": {}, "memory": {}, "pods": {"weight": 2}})
    assert [part.resource for part in plugin.strategy.parts(task(session.state, "j-0"))] == ["cpu", "pods"]


def test_an_absent_resource_scores_nothing_but_its_weight_counts() -> None:
    resources = {"cpu": {"type": "LeastAllocated", "weight": 1}, "x.io/g": {"type": "MostAllocated", "weight": 2}}
    session, plugin = opened(node("n", cpu="10"), member_pod("j-0", "j", cpu="1", x_io__g="1"), resources=resources)
    assert strategy(session, plugin) == [pytest.approx(0.9 / 3 * 1000)]


def test_an_overfull_node_scores_nothing_at_all() -> None:
    session, plugin = opened(node("n", cpu="10", memory="1Gi"), member_pod("j-0", "j", cpu="1", memory="2Gi"))
    assert strategy(session, plugin) == [0]


def test_a_weight_of_zero_turns_the_strategy_off() -> None:
    session, plugin = opened(node("n"), member_pod("j-0", "j"), resourceStrategyFitWeight=0)
    assert plugin.strategy.batch(task(session.state, "j-0")) == Batch.SKIP
    assert strategy(session, plugin) == [0]


# --- a pod's own strategy


def own(type_: str | None, weights: str | None) -> tuple[Session, ResourceStrategyFit]:
    notes = {key: value for key, value in ((TYPE, type_), (WEIGHT, weights)) if value is not None}
    return opened(node("n", cpu="10", memory="4Gi"), member_pod("j-0", "j", cpu="1", memory="3Gi", annotations=notes))


def test_a_pods_annotations_replace_types_and_weights() -> None:
    assert strategy(*own("MostAllocated", '{"cpu": 1, "memory": 3}')) == [pytest.approx((0.1 + 3 * 0.75) / 4 * 1000)]
    assert strategy(*own("LeastAllocated", '{"cpu": 5}')) == [pytest.approx(900)]


@pytest.mark.parametrize(
    ("type_", "weights"),
    [
        ("MostAllocated", None),
        ("MostAllocated", "{"),
        ("MostAllocated", '{"cpu": "1"}'),
        ("MostAllocated", '{"cpu": -1}'),
        ("Most", '{"cpu": 1}'),
    ],
)
def test_annotations_that_cannot_be_used_give_no_score_and_are_reported(type_: str, weights: str | None) -> None:
    session, plugin = own(type_, weights)
    assert strategy(session, plugin) == [0]
    assert [w.startswith("Pod d/j-0: annotation") for w in session.warnings] == [True]
    assert [f.object for f in ResourceStrategyFit.examine(session)] == ["Pod d/j-0"]


def test_weights_alone_change_nothing_and_are_reported() -> None:
    session, plugin = own(None, '{"cpu": 5}')
    assert strategy(session, plugin) == [pytest.approx((0.9 + 0.25) / 2 * 1000)]
    assert len(ResourceStrategyFit.examine(session)) == 1


# --- proportional


def refusal(session: Session, plugin: ResourceStrategyFit, name: str) -> Verdict:
    return plugin.filter(task(session.state, name), session.state.nodes.everything())


PROPORTIONAL = {
    "sra": {
        "policy": "proportional",
        "resources": "nvidia.com/gpu",
        "proportional": {"nvidia.com/gpu.cpu": 8, "nvidia.com/gpu.memory": 8},
    }
}
GPU_NODE = node("nodeC0-0", cpu="74", memory="128G", resources={"nvidia.com/gpu": "8"})


def test_the_designs_proportional_example() -> None:
    first, second = (member_pod(f"single-1000-{i}", "j", cpu="8", memory="8G") for i in (0, 1))
    session, plugin = opened(GPU_NODE, first, second, **PROPORTIONAL)
    assert refusal(session, plugin, "single-1000-0").fits.all()
    session.statement().allocate([task(session.state, "single-1000-0")], [0])
    refused = refusal(session, plugin, "single-1000-1")
    assert not refused.fits.any()
    reason = refused.reasons[int(refused.code[0]) - 1]
    assert (reason.message(), reason.resolvable) == ("node keeps 8 cpu free for each idle nvidia.com/gpu", True)


def test_proportional_is_resolvable_where_an_empty_node_would_do_and_counts_without_what_is_released() -> None:
    small, large = member_pod("small", "j", cpu="8", memory="8G"), member_pod("large", "j", cpu="11", memory="8G")
    session, plugin = opened(GPU_NODE, member_pod("old", "k", on="nodeC0-0", cpu="8"), small, large, **PROPORTIONAL)
    verdicts = [refusal(session, plugin, name) for name in ("small", "large")]
    reasons = [verdict.reasons[int(verdict.code[0]) - 1].resolvable for verdict in verdicts]
    assert reasons == [True, False]
    session.statement().evict(task(session.state, "old"), None, "preempt")
    view = session.state.nodes.everything()
    assert not refusal(session, plugin, "small").fits.any(), "the victim is still there"
    view.kind = MoveKind.PIPELINE
    assert plugin.filter(task(session.state, "small"), view).fits.all()


def test_proportional_counts_memory_in_billions_of_bytes() -> None:
    session, plugin = opened(
        GPU_NODE, member_pod("j-0", "j", memory="64G"), member_pod("j-1", "j", memory="64000000001"), **PROPORTIONAL
    )
    assert refusal(session, plugin, "j-0").fits.all()
    refused = refusal(session, plugin, "j-1")
    reason = refused.reasons[int(refused.code[0]) - 1]
    assert reason.message() == "node keeps 8G memory free for each idle nvidia.com/gpu"


def test_pods_that_ask_for_the_primary_resource_and_nodes_without_it_are_not_concerned() -> None:
    session, plugin = opened(
        GPU_NODE,
        node("plain"),
        member_pod("j-0", "j", cpu="70", nvidia_com__gpu="1"),
        member_pod("j-1", "j", cpu="70"),
        **PROPORTIONAL,
    )
    assert plugin.proportional.batch(task(session.state, "j-0")) == Batch.SKIP
    assert refusal(session, plugin, "j-0").fits.all()
    assert refusal(session, plugin, "j-1").fits.tolist() == [False, True]


def test_the_filter_is_there_only_with_the_policy() -> None:
    session, plugin = opened(GPU_NODE)
    assert list(plugin.filters()) == []
    assert [term.term for term in plugin.scorers()] == ["strategy", "retention"]
    assert plugin.effective()["resourceStrategyFitWeight"] == 10
    assert session.warnings == []
