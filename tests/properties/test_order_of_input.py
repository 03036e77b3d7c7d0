"""The same cluster gives the same answer, in whatever order its documents come."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.model.meta import Object, key
from muster.sim.simulate import simulate
from strategies.clusters import NOW, Cluster, clusters, state_of
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples


@st.composite
def shuffled(draw: st.DrawFn, *, crowded: bool = False) -> tuple[Cluster, list[Object]]:
    cluster = draw(clusters(crowded=crowded))
    return cluster, draw(st.permutations(cluster.objects))


def reported(objects: list[Object], config: Config) -> str:
    held: dict[str, dict[str, Object]] = {}
    for one in objects:
        held.setdefault(type(one).__name__, {})[key(one)] = one
    return json.dumps(simulate(Scheduler(config), held, NOW, ("muster",), cycles=3).to_dict())


@given(shuffled(), configurations())
@examples(100)
def test_the_plan_does_not_depend_on_the_order(both: tuple[Cluster, list[Object]], config: Config) -> None:
    cluster, other = both
    assert Scheduler(config).cycle(cluster.state(), NOW) == Scheduler(config).cycle(state_of(other), NOW)


@given(shuffled(crowded=True), configurations(first=("priority", "gang", "conformance"), actions=EVICTING))
@examples(100)
def test_evictions_do_not_depend_on_the_order(both: tuple[Cluster, list[Object]], config: Config) -> None:
    cluster, other = both
    assert Scheduler(config).cycle(cluster.state(), NOW) == Scheduler(config).cycle(state_of(other), NOW)


@given(shuffled(), configurations())
@examples(40)
def test_three_cycles_on_the_embedded_cluster_print_the_same_bytes(
    both: tuple[Cluster, list[Object]], config: Config
) -> None:
    cluster, other = both
    assert reported(list(cluster.objects), config) == reported(other, config)
