"""Settled jobs (all pods run) cost a cycle almost nothing, and are evaluated again as soon as they change."""

from __future__ import annotations

import pytest

from builders.manifests import node, queue, typed
from builders.scheduler_objects import waiting
from builders.small_cluster import pod_group
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Job
from muster.engine.core.state import State
from muster.plugins.gang import Gang
from muster.scheduler.configuration import read_config


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that gang was asked about."""
    found: list[str] = []
    missing = Gang.missing

    def noted(self: Gang, job: Job) -> int:
        found.append(job.name)
        return missing(self, job)

    monkeypatch.setattr(Gang, "missing", noted)
    return found


def running() -> tuple[State, Scheduler]:
    state = State()
    state.load({
        "Node": {"n1": typed(node("n1"))},
        "Queue": {"default": typed(queue("default"))},
        "PodGroup": {"d/pair": pod_group("pair", members=2), "d/other": pod_group("other", members=1)},
        "Pod": {f"d/{name}": waiting(name, group, on="n1") for name, group in
                (("pair-0", "pair"), ("pair-1", "pair"), ("other-0", "other"))},
    })  # fmt: skip
    for key in ("d/pair", "d/other"):
        group = pod_group(key[2:], members=2 if key == "d/pair" else 1)
        group.status.phase = "Running"  # type: ignore[attr-defined]
        state.upsert("PodGroup", key, group)
    return state, Scheduler(read_config(None).config)


def test_a_job_that_only_runs_is_not_asked_about_again(asked: list[str]) -> None:
    state, scheduler = running()
    first = scheduler.cycle(state, 1.0)
    asked.clear()
    again = scheduler.cycle(state, 2.0)
    assert not asked
    assert again.conditions == first.conditions and again.conditions.keys() == {"d/pair", "d/other"}


def test_one_whose_pod_is_gone_is_asked_about_and_reported_alone(asked: list[str]) -> None:
    state, scheduler = running()
    scheduler.cycle(state, 1.0)
    asked.clear()
    state.remove("Pod", "d/pair-1")
    plan = scheduler.cycle(state, 2.0)
    assert set(asked) == {"pair"}
    assert plan.conditions.keys() == {"d/other"}
    assert plan.phases == {"d/pair": "Pending"}


def test_one_whose_minimum_is_another_is_asked_about(asked: list[str]) -> None:
    state, scheduler = running()
    scheduler.cycle(state, 1.0)
    asked.clear()
    larger = pod_group("other", members=3)
    larger.status.phase = "Running"  # type: ignore[attr-defined]
    state.upsert("PodGroup", "d/other", larger)
    plan = scheduler.cycle(state, 2.0)
    assert set(asked) == {"other"} and "d/other" not in plan.conditions


def test_another_configuration_asks_about_all(asked: list[str]) -> None:
    state, scheduler = running()
    scheduler.cycle(state, 1.0)
    asked.clear()
    Scheduler(read_config(None).config).cycle(state, 2.0)
    assert set(asked) == {"pair", "other"}
