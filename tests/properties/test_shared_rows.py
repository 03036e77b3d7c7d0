"""Whether resources have rows of their own or share rows, the engine decides the same, and undoes exactly."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core import axis
from muster.engine.core.state import State
from muster.model.core import Container, Node, Pod
from muster.model.meta import key
from muster.plugin_checks.choices import SeededChoices
from properties.test_following import picture
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples

RARE = ("example.com/a", "example.com/b", "example.com/c", "example.com/d")


def all_shared() -> AbstractContextManager[object]:
    """Every resource but cpu, memory and pods shares rows, however many nodes offer it."""
    return patch.object(axis, "_COMMON", 0)


@st.composite
def with_rare_resources(draw: st.DrawFn, *, crowded: bool = False) -> Cluster:
    """Clusters whose nodes offer a few of some resources each; pods request them, also where their node has none."""
    found = draw(clusters(crowded=crowded))
    choices = SeededChoices(draw(st.integers(0, 2**32)))
    objects = []
    for one in copy.deepcopy(found.objects):
        if isinstance(one, Node):
            for name in choices.subset(RARE[:3]):
                one.status.allocatable[name] = str(choices.integer(1, 3))
        elif isinstance(one, Pod) and choices.flip():
            for name in choices.subset(RARE)[:2]:
                _request(one.spec.containers[0], name)
        objects.append(one)
    return Cluster(tuple(objects))


def _request(container: Container, name: str) -> None:
    container.resources.requests[name] = "1"


@given(with_rare_resources(), configurations())
@examples(200)
def test_shared_rows_change_nothing(cluster: Cluster, config: Config) -> None:
    own = Scheduler(config).cycle(cluster.state(), NOW)
    with all_shared():
        shared = Scheduler(config).cycle(cluster.state(), NOW)
    assert own == shared


@pytest.mark.parametrize("compatibility", ["", "volcano"])
@given(cluster=with_rare_resources(crowded=True), config=configurations(actions=EVICTING))
@examples(150)
def test_shared_rows_change_no_eviction(compatibility: str, cluster: Cluster, config: Config) -> None:
    config = replace(config, compatibility=compatibility)
    own = Scheduler(config).cycle(cluster.state(), NOW)
    with all_shared():
        shared = Scheduler(config).cycle(cluster.state(), NOW)
    assert own == shared


@given(with_rare_resources(crowded=True), configurations(actions=EVICTING))
@examples(100)
def test_a_cycle_with_shared_rows_leaves_the_columns_as_they_were(cluster: Cluster, config: Config) -> None:
    with all_shared():
        state = cluster.state()
        before = picture(state)
        Scheduler(config).cycle(state, NOW)
        after = picture(state)
        assert (after["rows"], after["nonzero"]) == (before["rows"], before["nonzero"])


@given(with_rare_resources(), st.randoms(use_true_random=False), st.booleans())
@examples(150)
def test_the_order_of_events_does_not_matter_for_shared_rows(cluster: Cluster, random: object, shares: bool) -> None:
    """Resources move to other rows, and get their own, as nodes come to have them."""
    objects = list(cluster.objects)
    random.shuffle(objects)  # type: ignore[attr-defined]
    whole = picture(cluster.state())
    with patch.object(axis, "_COMMON", 0 if shares else 3):
        state = State()
        for one in objects:
            if isinstance(one, Node):
                bare = copy.deepcopy(one)
                bare.status.allocatable = {"cpu": "1"}
                state.upsert("Node", key(one), bare)
                state.refresh()
        for one in objects:
            state.upsert(type(one).__name__, key(one), one)
            state.refresh()
        assert picture(state)["rows"] == whole["rows"]
