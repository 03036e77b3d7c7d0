"""Every plan is allowed: it fits, gangs are whole, quotas hold, and nobody is evicted who may not be or need not be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import QueueQuota
from muster.engine.core.jobs import ALLOCATED_LIKE, Status
from muster.engine.core.session import Session
from muster.plugins.capacity import Capacity
from muster.plugins.proportion import Proportion
from oracles.plan_checker import check
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples

TIER_ONE = ("priority", "gang", "conformance")


@given(clusters(), configurations())
@examples(150)
def test_every_plan_is_allowed(cluster: Cluster, config: Config) -> None:
    check(cluster.objects, config, Scheduler(config).cycle(cluster.state(), NOW))


@pytest.mark.parametrize("compatibility", ["", "volcano"])
@given(cluster=clusters(crowded=True), config=configurations(first=TIER_ONE, actions=EVICTING))
@examples(200)
def test_every_plan_with_evictions_is_allowed(compatibility: str, cluster: Cluster, config: Config) -> None:
    config = replace(config, compatibility=compatibility)
    check(cluster.objects, config, Scheduler(config).cycle(cluster.state(), NOW))


def limits(session: Session) -> dict[str, dict[str, float]]:
    """Queue → what it may hold, where the configuration limits it: as the plugins say at the start of the cycle."""
    found: dict[str, dict[str, float]] = {}
    for plugin in session.flat(QueueQuota):
        assert isinstance(plugin, Proportion | Capacity)
        for name, account in plugin._accounts.items():
            if name not in session.queues:
                continue  # the root that every tree has, if only implied
            limit = account.deserved if isinstance(plugin, Proportion) else account.real
            now = found.setdefault(name, dict(limit))
            found[name] = {k: min(now.get(k, 0), limit.get(k, 0)) for k in {*now, *limit}}
    return found


def held(session: Session, queue: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for job in session.queues[queue].jobs.values():
        for task in job.tasks.values():
            if task.status in (*ALLOCATED_LIKE, Status.PIPELINED):
                for name, amount in task.shape.amounts.items():
                    sums[name] = sums.get(name, 0) + amount
    return sums


@given(clusters(), configurations(actions=(("allocate",), ("enqueue", "allocate", "backfill"))))
@examples(150)
def test_no_queue_takes_more_than_it_may(cluster: Cluster, config: Config) -> None:
    """In every dimension that a queue grew in it holds no more than its limit (`pods` are never counted)."""
    scheduler = Scheduler(config)
    session = scheduler.session(cluster.state(), NOW)
    most = {name: limit for name, limit in limits(session).items() if name in session.queues}
    before = {name: held(session, name) for name in session.queues}
    for _, run in scheduler.actions:
        run(session)
    for name, limit in most.items():
        for resource, amount in held(session, name).items():
            if resource != "pods" and amount > before[name].get(resource, 0):
                assert amount <= limit.get(resource, 0), f"queue {name}: {resource}"
    session.close()
