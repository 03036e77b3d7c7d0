"""`check_plugin`: a sound plugin passes, and every kind of mistake is found and explained."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest

import muster.plugin
from builders.manifests import node, pod, state_of
from muster.config.types import Config, PluginOption, Tier
from muster.cycle.host import PluginError
from muster.cycle.registry import PLUGINS, plugin_class
from muster.cycle.scheduler import Scheduler
from muster.model.meta import Object
from muster.plugin import (
    Batch,
    Claim,
    CustomResource,
    Ledger,
    Move,
    NodeFilter,
    NodeScorer,
    NodeView,
    Plugin,
    Protection,
    Reason,
    Scope,
    Session,
    Task,
    Verdict,
)
from muster.testing import CheckFailed, check_plugin

TIER = "example.com/tier"


def tier_of(task: Task) -> int:
    return len(task.annotations.get(TIER, ""))


class Tiers(Plugin, NodeScorer):
    """Pods of a tier prefer nodes of that tier."""

    name = "tiers"
    scope = Scope.STATIC

    def signature(self, task: Task) -> Hashable:
        return tier_of(task)

    def raw(self, task: Task, nodes: NodeView) -> Any:
        labels = [len(nodes.nodes.objects[i].metadata.labels.get(TIER, "")) for i in nodes.index]
        return np.array([float(label == tier_of(task)) for label in labels])


class ForgetsSignature(Tiers):
    def signature(self, task: Task) -> None:
        return None


class ForgetsConstant(Plugin, NodeScorer):
    """Knows one value of an annotation: the random clusters must have it, although only the plugin's code names it."""

    name = "constant"

    def raw(self, task: Task, nodes: NodeView) -> Any:
        odd = task.annotations.get("example.com/side") == "odd"
        return np.where(nodes.index % 2 == odd, 1.0, 0.0)


class PositionMatters(Plugin, NodeScorer):
    name = "position"

    def raw(self, task: Task, nodes: NodeView) -> Any:
        return np.arange(len(nodes), dtype=np.float64)


class StaticButReadsUsage(Plugin, NodeFilter):
    name = "usage"
    scope = Scope.STATIC

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return Verdict.of(nodes.used[nodes.nodes.axis.rows["pods"]] > 0, Reason("used", "node(s) are in use"))


class CountsPods(Plugin, NodeScorer, Ledger):
    """The score is how many pods the plugin has counted, on whatever node: it depends on the whole cluster."""

    name = "counts"
    scope = Scope.CLUSTER
    back = 1

    def open(self, session: Session) -> None:
        self.counts = np.zeros(len(session.state.nodes), np.int64)

    def raw(self, task: Task, nodes: NodeView) -> Any:
        return (self.counts[nodes.index] * self.counts.sum()).astype(np.float64)

    def allocated(self, move: Move) -> None:
        np.add.at(self.counts, move.nodes, 1)

    def released(self, move: Move) -> None:
        np.add.at(self.counts, move.nodes, -self.back)


class CountsClusterAsNode(CountsPods):
    scope = Scope.NODE

    def batch(self, task: Task) -> Batch:
        return Batch.SINGLE


class CountsInBatches(CountsPods):
    scope = Scope.NODE

    def raw(self, task: Task, nodes: NodeView) -> Any:
        return self.counts[nodes.index].astype(np.float64)


class LosesCount(CountsPods):
    back = 0


class NeverOpens(CountsPods):
    """Keeps its counts from one cycle to the next, and counts more in each."""

    def open(self, session: Session) -> None:
        self.cycles = getattr(self, "cycles", 0) + 1
        super().open(session)

    def raw(self, task: Task, nodes: NodeView) -> Any:
        return np.where(nodes.index == self.cycles % 2, 1.0, 0.0)


class Refuses(Plugin, NodeFilter):
    name = "refuses"

    def batch(self, task: Task) -> Batch:
        return Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return Verdict.of(np.ones(len(nodes), np.bool_), Reason("no", "no"))


class TakesNodesForEqual(Plugin, NodeScorer):
    """Declares that nodes with equal columns get equal scores, and scores them by name."""

    name = "equal"
    columns_only = True

    def raw(self, task: Task, nodes: NodeView) -> Any:
        return nodes.index.astype(np.float64)


@pytest.mark.parametrize("sound", [Tiers, CountsPods])
def test_a_sound_plugin_passes(sound: type[Plugin]) -> None:
    check_plugin(sound, clusters=6)


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_the_built_in_plugins_pass(name: str) -> None:
    check_plugin(plugin_class(name), clusters=2)


@pytest.mark.parametrize(
    ("faulty", "check", "seed", "advice"),
    [
        (ForgetsSignature, "signature", 1, "Return from signature() everything that the filter or score reads"),
        (ForgetsConstant, "signature", 0, "Return from signature() everything that the filter or score reads"),
        (PositionMatters, "slice", 0, "Compute each column from that column of the view"),
        (StaticButReadsUsage, "scope", 0, "declares Scope.STATIC"),
        (CountsClusterAsNode, "scope", 1, "Declare scope = Scope.CLUSTER"),
        (CountsInBatches, "batch", 1, "Return Batch.SINGLE from batch()"),
        (LosesCount, "ledger", 0, "`released` must be the exact inverse of `allocated`"),
        (NeverOpens, "restart", 0, "make its accounts anew in open()"),
        (Refuses, "skip", 0, "returns Batch.SKIP"),
        (TakesNodesForEqual, "cached", 0, "A cached or batched answer was used where a fresh one differs"),
    ],
)
def test_a_mistake_is_found_and_explained(faulty: type[Plugin], check: str, seed: int, advice: str) -> None:
    with pytest.raises(CheckFailed) as caught:
        check_plugin(faulty, clusters=60, seed=seed)
    assert caught.value.check == check, str(caught.value)
    assert advice in str(caught.value)
    assert f"plugin {faulty.name}, random cluster" in str(caught.value)


class Keeps(Plugin, Protection):
    """Pods with an annotation are evicted for nobody."""

    name = "keeps"

    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        kept = any(task.annotations.get("example.com/keep") == "yes" for task in victims)
        return Reason("keep", f"must not be evicted for {claim.job.key}") if kept else None


def test_a_third_party_may_protect_pods_from_eviction() -> None:
    check_plugin(Keeps)
    plugins = tuple(PluginOption(name) for name in ("priority", "gang", "keeps", "predicates"))
    scheduler = Scheduler(Config(("allocate", "preempt"), (Tier(plugins),)), classes={"keeps": Keeps})

    def evicted(keep: str) -> list[str]:
        low = pod("low", on="a", cpu=4, priority=1, annotations={"example.com/keep": keep})
        state = state_of(node("a", cpu=4), low, pod("high", cpu=4, priority=9))
        return [one.pod for one in scheduler.cycle(state, 0.0).evictions]

    assert (evicted("no"), evicted("yes")) == (["default/low"], [])


def test_an_error_is_reported_as_the_scheduler_reports_it() -> None:
    class Fails(Plugin, NodeFilter):
        name = "fails"

        def filter(self, task: Task, nodes: NodeView) -> Any:
            raise KeyError("rack")

    with pytest.raises(PluginError, match=r"plugin fails of package .* filter raises KeyError"):
        check_plugin(Fails)


def test_abstract_and_nameless_plugins_are_refused() -> None:
    class Abstract(Plugin, NodeFilter):
        name = "abstract"

    class Nameless(Plugin):
        pass

    with pytest.raises(CheckFailed, match="does not implement filter"):
        check_plugin(Abstract)
    with pytest.raises(CheckFailed, match="has no name"):
        check_plugin(Nameless)


class Maintenance(CustomResource, kw_only=True):
    group, version, plural, namespaced = "example.com", "v1", "maintenances", False

    nodes: list[str] = []


class Drains(Plugin, NodeFilter):
    """Refuses the nodes that objects of a custom resource name."""

    name = "drains"
    scope = Scope.STATIC
    reads = (Maintenance,)
    asked = 0

    def open(self, session: Session) -> None:
        self.names = {name for one in session.objects(Maintenance).values() for name in one.nodes}
        type(self).asked += bool(self.names)

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        refused = [nodes.nodes.names[i] in self.names for i in nodes.index]
        return Verdict.of(np.array(refused, np.bool_), Reason("maintenance", "node(s) are being serviced"))


def test_the_clusters_can_be_changed_for_the_kinds_that_a_plugin_reads() -> None:
    def change(rng: random.Random, objects: list[Object]) -> None:
        one = Maintenance(nodes=[f"n{rng.randint(0, 2)}"])
        one.metadata.name = "now"
        objects.append(one)

    check_plugin(Drains, change=change, clusters=4)


def test_neither_pytest_nor_hypothesis_is_imported() -> None:
    code = "import sys, muster.testing; print({'pytest', 'hypothesis'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_public_names_are_in_two_parts() -> None:
    names: Sequence[str] = muster.plugin.__all__
    assert sorted([*muster.plugin.FIRST, *muster.plugin.SPEED]) == sorted(names)
    assert all(hasattr(muster.plugin, name) for name in names)
