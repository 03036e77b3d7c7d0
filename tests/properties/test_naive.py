"""On small clusters the engine decides exactly as a plain reading of Volcano's rules does."""

from __future__ import annotations

from hypothesis import given

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from oracles.naive_actions import decide
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import configurations
from strategies.profiles import examples

KNOWN = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder", "binpack")
PLACING = (("allocate",), ("enqueue", "allocate", "backfill"), ("allocate", "backfill"))
EVICTING = (("preempt",), ("reclaim",), ("reclaim", "allocate", "preempt", "backfill"), ("allocate", "preempt"))


def agree(cluster: Cluster, config: Config) -> None:
    plan = Scheduler(config).cycle(cluster.state(), NOW)
    binds, pipelined, evictions = decide(cluster.objects, config)
    assert plan.binds == binds
    assert plan.pipelined == pipelined
    assert [eviction.pod for eviction in plan.evictions] == evictions


@given(clusters(plain=True), configurations(KNOWN, actions=PLACING, simple=True, compatibility="volcano"))
@examples(200)
def test_allocate_and_backfill_are_the_plain_reading(cluster: Cluster, config: Config) -> None:
    agree(cluster, config)


@given(
    clusters(plain=True, crowded=True),
    configurations(
        KNOWN, first=("priority", "gang", "conformance"), actions=EVICTING, simple=True, compatibility="volcano"
    ),
)
@examples(200)
def test_reclaim_and_preempt_are_the_plain_reading(cluster: Cluster, config: Config) -> None:
    agree(cluster, config)
