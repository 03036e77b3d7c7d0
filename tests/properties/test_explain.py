"""`explain` agrees with `simulate` on every pod of a run: decision, reason, and the node with the best score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import queue, tables
from builders.racks import RACK, ZONE, gang, gpu_node, member, topology
from builders.racks import scheduler as rack_scheduler
from muster.cluster.manifests import read
from muster.config.types import Config
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.engine.placement.turns import TurnKind
from muster.model.meta import Object
from muster.sim.explain import Explanation
from muster.sim.explain import explain as run_explain
from muster.sim.result import Result
from muster.sim.simulate import simulate
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import configurations
from strategies.eviction_clusters import scenario
from strategies.profiles import examples, times

NAMES = ("muster", "volcano")
MOST_PODS = 4  # of a run that are explained
Objects = Mapping[str, Mapping[str, Object]]


def check(scheduler: Scheduler, objects: Objects, now: float, most: int = MOST_PODS) -> None:
    """Explains pods of the run that are spread over all of its pods."""
    result = simulate(scheduler, objects, now, NAMES)
    pods = sorted({*result.binds, *result.pending})
    for pod in islice(pods, 0, None, max(1, len(pods) // most)):
        agrees(run_explain(scheduler, objects, now, NAMES, pod), result)


def agrees(answer: Explanation, result: Result) -> None:
    pod = answer.pod
    assert answer.decision.node == result.binds.get(pod)
    if pod in result.pending:
        assert answer.decision.reason == result.pending[pod]
        assert not answer.cycle or answer.cycle == result.cycles
    if pod not in result.binds:
        return
    record = result.history[answer.cycle - 1]
    assert record.binds[pod] == result.binds[pod]
    assert 0 <= answer.placed_before < len(record.binds) + len(result.pending)
    chosen = answer.nodes[result.binds[pod]]
    assert chosen.feasible, chosen.reasons
    if answer.turn_kind == TurnKind.CHOSEN:
        totals = {name: trace.total for name, trace in answer.nodes.items() if trace.candidate}
        best = max(totals.values())
        tolerance = 1e-9 * max(1.0, abs(best))
        first = next(name for name, total in totals.items() if total >= best - tolerance)
        assert first == result.binds[pod], totals
        assert (answer.deciding is None) == (len(totals) == 1)
        if answer.deciding is not None:
            parts = sum(term.difference for term in answer.deciding.terms)
            assert answer.deciding.difference == pytest.approx(parts, abs=1e-6)


@given(clusters(), configurations())
@examples(100)
def test_every_configuration(cluster: Cluster, config: Config) -> None:
    check(Scheduler(config), tables(cluster.objects), NOW)


@given(clusters(crowded=True), configurations(compatibility="volcano"))
@examples(50)
def test_evictions_by_volcanos_rules(cluster: Cluster, config: Config) -> None:
    check(Scheduler(replace(config, compatibility="volcano")), tables(cluster.objects), NOW)


@pytest.mark.parametrize("seed", range(times(40)))
def test_evictions_budgets_and_racks(seed: int) -> None:
    made = scenario(seed, large=seed % 2 == 1)
    config, _ = configure(json.dumps(made.config), "scheduler.yaml")
    found = read([("cluster.yaml", "".join(f"---\n{json.dumps(one)}\n" for one in made.objects).encode())])
    check(Scheduler(config), found.objects, found.latest)


@given(
    racks=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=4),
    gangs=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(1, 2)), min_size=1, max_size=3),
)
@examples(100)
def test_elastic_gangs_in_node_sets(racks: list[list[int]], gangs: list[tuple[int, int, int]]) -> None:
    """Gangs of a minimum and a surplus in racks of nodes with GPUs."""
    objects: list[Object] = [
        gpu_node(f"r{r}n{i}", gpus=gpus, rack=f"r{r}", zone=f"z{r // 2}")
        for r, rack in enumerate(racks) for i, gpus in enumerate(rack)
    ]  # fmt: skip
    for g, (least, surplus, gpus) in enumerate(gangs):
        objects.append(gang(f"job{g}", least, RACK))
        objects += [member(f"job{g}", i, gpus=gpus) for i in range(least + surplus)]
    check(rack_scheduler(), tables([queue(), topology(ZONE, RACK), *objects]), 0.0)
