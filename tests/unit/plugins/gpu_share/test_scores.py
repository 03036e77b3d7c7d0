"""Scores of nodes, the GPUs that are chosen, and what is written with a binding."""

from __future__ import annotations

from math import exp, floor
from typing import Any

import pytest

from builders.filter_clusters import by_node, plugin, session, task
from builders.manifests import node, pod, state_of
from muster.actions import allocate
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.planning import plan_of
from muster.cycle.registry import plugin_class
from muster.engine.core.plan import Plan
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.plugins.gpu_share import GpuShare

GPU = "nvidia.com/gpu"
TYPICAL = [{"cpu": 1, "gpus": 1, "milli": 500, "weight": 3}, {"cpu": 2, "gpus": 2, "weight": 1}, {"cpu": 4}]


def share(name: str, fraction: str, on: str = "", index: str | None = None, **more: Any) -> dict[str, Any]:
    notes = {"gpu-fraction": fraction, **({} if index is None else {"muster.io/gpu-index": index})}
    return pod(name, on=on, annotations=notes, schedulerName="muster", **more)


def scores(world: State, **arguments: Any) -> dict[str, float]:
    sharing = plugin(GpuShare, **{f"gpu-share.{key}": value for key, value in arguments.items()})
    assert isinstance(sharing, GpuShare)
    session(world, sharing)
    return by_node(world, sharing.raw(task(world, "p"), world.nodes.everything()).tolist())


def decide(world: State, **arguments: Any) -> Plan:
    given = Arguments({f"gpu-share.{key}": value for key, value in arguments.items()})
    options = (PluginOption("gang"), PluginOption("gpu-share", arguments=given))
    plugins = [plugin_class(option.name)(option.arguments, option) for option in options]
    cycle = Session(world, Config(("allocate",), (Tier(options),)), [plugins], 1000.0)
    allocate.run(cycle)
    plan = plan_of(cycle)
    cycle.close()
    return plan


def cluster(*pods: dict[str, Any]) -> State:
    return state_of(*(node(name, cpu=8, resources={GPU: 2}) for name in ("a", "b")), *pods)


def test_pack_prefers_the_fullest_gpu_that_fits_and_spread_the_emptiest() -> None:
    world = cluster(share("r", "0.6", "a", "0"), share("p", "0.3"))
    assert scores(world) == {"a": 90.0, "b": 30.0}
    assert scores(world, score="spread") == {"a": 70.0, "b": 70.0}
    assert scores(world, weight=2) == {"a": 180.0, "b": 60.0}
    assert scores(world, weight=0) == {"a": 0.0, "b": 0.0}


def test_whole_gpus_go_by_the_use_of_the_node() -> None:
    world = cluster(share("r", "0.6", "a", "0"), pod("p", requests={"cpu": 1, GPU: 1}))
    assert scores(world) == {"a": 80.0, "b": 50.0}
    assert scores(world, score="spread") == {"a": 20.0, "b": 50.0}


def test_fgd_is_the_sigmoid_of_the_change_of_the_fragment() -> None:
    # a has 400+1000 free. The pod of 0.5 (weight 3 of 5) leaves 400 unused, the other two cannot be served there.
    # With 300 less on GPU 0 (100+1000) it leaves 100 unused; with 300 less on GPU 1 (400+700), 400.
    world = cluster(share("r", "0.6", "a", "0"), share("p", "0.3"))
    before, after = (3 * 400 + 2 * 1400) / 5, (3 * 100 + 2 * 1100) / 5
    best = floor(100 / (1 + exp(-(before - after) / 1000)))
    # b has 1000+1000 free and serves all but the pod without GPUs; with 700+1000 two whole GPUs are missing, too.
    other = floor(100 / (1 + exp(-(2000 / 5 - 2 * 1700 / 5) / 1000)))
    assert scores(world, score="fgd", typicalPods=TYPICAL) == {"a": best, "b": other}
    plan = decide(world, score="fgd", typicalPods=TYPICAL)
    assert plan.shares == {"default/p": {0: 300}}
    assert plan.binds == {"default/p": "a"}


def test_equal_scores_of_fgd_are_decided_by_the_name_of_the_node_and_the_number_of_the_gpu() -> None:
    plan = decide(cluster(share("p", "0.3")), score="fgd", typicalPods=TYPICAL)
    assert plan.binds == {"default/p": "a"}
    assert plan.devices == {"default/p": [0]}


def test_the_index_is_written_with_the_binding() -> None:
    volcano = {"volcano.sh/gpu-number": 2, "volcano.sh/gpu-memory": 32000}
    world = state_of(
        node("a", cpu=8, resources={GPU: 2}),
        node("v", cpu=8, resources=volcano),
        pod("whole", requests={"cpu": 1, GPU: 2}, schedulerName="muster"),
        pod("memory", requests={"cpu": 1, "volcano.sh/gpu-memory": 4000}, schedulerName="muster"),
    )
    plan = decide(world)
    assert plan.annotations_of("default/whole") == {"muster.io/gpu-index": "0,1"}
    written = {"volcano.sh/gpu-index": "0", "volcano.sh/predicate-time": "1000000000000"}
    assert plan.annotations_of("default/memory") == written
    assert plan.shares == {"default/whole": {0: 1000, 1: 1000}, "default/memory": {0: 250}}


def test_bad_typical_pods_are_reported_and_left_out() -> None:
    bad = [{"cpu": "x"}, 7, {"gpus": 99}, {"gpus": 1, "milli": 0}, {"weight": 0}, {"models": 3}, {"gpu": 1}]
    given = Arguments({"gpu-share.typicalPods": [*bad, {"cpu": 1, "gpus": 1, "weight": 0.5}]})
    GpuShare(given, PluginOption("gpu-share", arguments=given))
    assert len(given.findings) == len(bad)
    for value in ("often", [], {"cpu": 1}):
        given = Arguments({"gpu-share.typicalPods": value})
        GpuShare(given, PluginOption("gpu-share", arguments=given))
        assert "running is used" in given.findings[0].message


@pytest.mark.parametrize("typical", ["running", TYPICAL])
def test_the_fragmentation_is_known_where_gpus_are_shared(typical: object) -> None:
    sharing = plugin(GpuShare, **{"gpu-share.typicalPods": typical})
    assert isinstance(sharing, GpuShare)
    session(cluster(pod("p", requests={"cpu": 1, GPU: 1})), sharing)
    assert sharing.fragmentation() is None
    session(cluster(share("r", "0.6", "a", "0")), sharing)
    found = sharing.fragmentation()
    assert found is not None
    assert found.idle == 3.4
    assert found.total == 4


def test_a_drawing_shows_who_uses_a_gpu() -> None:
    sharing = plugin(GpuShare)
    assert isinstance(sharing, GpuShare)
    session(cluster(share("r", "0.5", "a", "0"), share("<s>", "0.25", "a", "0")), sharing)
    drawn = sharing.picture(0)
    assert drawn is not None
    assert drawn.text().splitlines() == [
        "a  2 GPUs",
        "  GPU 0  [aaaaabbbbbbbbbb·····]  750/1000",
        "  GPU 1  [····················]  0/1000",
        "  a default/<s>, b default/r",
    ]
    assert "default/&lt;s&gt;" in drawn.html()
    assert "<s>" not in drawn.html()
