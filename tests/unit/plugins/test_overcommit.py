"""overcommit: how much may be admitted."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, of, opened
from muster.engine.core.hooks import Vote
from muster.plugins.overcommit import Overcommit


def admitted(cpu: float, factor: object = None, *others: Any) -> bool:
    state = state_of(
        node(cpu=10, memory="10Gi"),
        queue("q"),
        job("new", waiting=1, phase="Pending", minResources={"cpu": cpu}),
        *others,
    )
    _, plugin = opened(Overcommit, state, {} if factor is None else {"overcommit-factor": factor})
    return plugin.enqueueable(of(state, "new")) == Vote.PERMIT


@pytest.mark.parametrize(
    ("factor", "cpu", "admits"),
    [(None, 12, True), (None, 12.001, False), (0.8, 12, True), (1.5, 15, True), (1.5, 16, False), (1, 11, False)],
)
def test_the_clusters_size_times_the_factor(factor: object, cpu: float, admits: bool) -> None:
    assert admitted(cpu, factor) is admits


def test_what_is_in_use_or_admitted_is_taken_off() -> None:
    assert admitted(8, 1, job("old", running=2))
    assert not admitted(9, 1, job("old", running=2))
    assert not admitted(8, 1, job("in", waiting=1, minResources={"cpu": 3}))


def test_only_the_dimensions_of_the_minimum_count() -> None:
    assert admitted(5, 1, job("old", running=1, asks={"memory": "10Gi"}))


def test_an_admitted_group_counts_without_its_gated_pods() -> None:
    gated = pod("g", "in", requests={"cpu": 3}, schedulingGates=[{"name": "wait"}])
    assert admitted(8, 1, group("in", "q", phase="Inqueue", minResources={"cpu": 3}), gated)


def test_the_refusal_shows_the_numbers_after_an_admission() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("q"), job("old", running=2),
        *(job(name, waiting=1, phase="Pending", minResources={"cpu": 6}) for name in ("a", "b")),
    )  # fmt: skip
    _, plugin = opened(Overcommit, state)
    plugin.enqueued(of(state, "a"))
    assert plugin.enqueueable(of(state, "b")) == Vote.REJECT
    assert plugin.refusal(of(state, "b")).message() == (
        "the cluster is overcommitted: cpu requested 6 + inqueue 6 > size times 1.2 less what is in use 10"
    )
