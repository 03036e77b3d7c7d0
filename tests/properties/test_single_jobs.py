"""Equal jobs of one pod are decided together as one at a time: plan, reasons, accounts, explanations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from msgspec.structs import asdict

from builders.manifests import node, pod, state_of, tables
from muster.config.loader import DEFAULT, load
from muster.config.types import Config
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core import session as session_module
from muster.engine.core.jobs import Status
from muster.engine.core.session import Session
from muster.plugin_checks.ledgers import Answers, all_answers
from muster.sim.explain import explain
from strategies.clusters import NOW, Cluster, crowds
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples

HOST = "kubernetes.io/hostname"
Decided = tuple[dict[str, Any], list[Any], Answers]


def decided(cluster: Cluster, config: Config, *, together: bool, reasons: bool = True) -> Decided:
    """The plan, the order of its binds and evictions, and what the plugins answer when everything is decided."""
    answers: list[Answers] = []

    def look(session: Session) -> None:
        assert together or all(job.single_class is None for job in session.active.values())
        answers.append(all_answers(session))

    classify = session_module.classify_single_jobs if together else lambda *of: None
    with patch.object(session_module, "classify_single_jobs", classify):
        plan = Scheduler(config).cycle(cluster.state(), NOW, look=look, reasons=reasons)
    return asdict(plan), [list(plan.binds), list(plan.pipelined), [e.pod for e in plan.evictions]], answers[0]


@given(crowds(), configurations())
@examples(250)
def test_one_at_a_time(cluster: Cluster, config: Config) -> None:
    assert decided(cluster, config, together=True) == decided(cluster, config, together=False)


@given(crowds(), configurations())
@examples(100)
def test_without_reasons(cluster: Cluster, config: Config) -> None:
    one, other = (decided(cluster, config, together=flag, reasons=False) for flag in (True, False))
    assert one == other


@pytest.mark.parametrize("compatibility", ["", "volcano"])
@given(cluster=crowds(crowded=True), config=configurations(first=("priority", "gang", "conformance"), actions=EVICTING))
@examples(100)
def test_with_evictions(compatibility: str, cluster: Cluster, config: Config) -> None:
    config = replace(config, compatibility=compatibility)
    assert decided(cluster, config, together=True) == decided(cluster, config, together=False)


@given(crowds(), configurations())
@examples(60)
def test_explanations(cluster: Cluster, config: Config) -> None:
    objects = tables(cluster.objects)
    waiting = (key for key, pod in objects["Pod"].items() if not pod.metadata.deletion_timestamp)
    pods = sorted(key for key in waiting if key.startswith("d/p"))
    for name in pods[:1] + pods[-1:]:
        together = explain(Scheduler(config), objects, NOW, ("muster", "volcano"), name)
        with patch.object(session_module, "classify_single_jobs", lambda *of: None):
            assert explain(Scheduler(config), objects, NOW, ("muster", "volcano"), name) == together


def test_labels_make_a_difference_where_a_rule_reads_them() -> None:
    """Pods of one spec with labels of their own are decided together, unless a rule of any pod is about labels."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "b"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [node("n1", labels={HOST: "n1"}), node("n2", labels={HOST: "n2"}, cpu=1)]
    pods = [pod(name, cpu="100m", labels={"app": name}) for name in "abc"]
    guard = pod("guard", on="n1", cpu="100m", affinity=apart)
    for objects, classes in ((nodes + pods, 1), ([*nodes, *pods, guard], 3)):
        found: set[object] = set()

        def look(session: Session, found: set[object] = found) -> None:
            found.update(job.single_class for job in session.active.values())

        plan = Scheduler(load(DEFAULT, "test", known())[0]).cycle(state_of(*objects), NOW, look=look)
        assert len(found - {None}) == classes and len(plan.binds) == 3
        assert guard not in objects or plan.binds["default/b"] == "n2"


def test_runs_are_drawn() -> None:
    """The clusters have jobs of one class, and several of them are moved together, by allocate and by backfill; pods of
    others are terminating.
    """
    sizes: Counter[bool] = Counter()
    terminating: list[int] = []

    @given(crowds(), configurations(actions=(("enqueue", "allocate", "backfill"),)))
    @examples(800)
    def run(cluster: Cluster, config: Config) -> None:
        def look(session: Session) -> None:
            sizes.update(move.task.best_effort for move in session.committed if move.several_jobs)
            classes = Counter(job.single_class for job in session.active.values())
            terminating.extend(n for c, n in classes.items() if n > 1 and c and c.status == Status.RELEASING)

        Scheduler(config).cycle(cluster.state(), NOW, look=look)

    run()
    assert min(sizes[True], sizes[False], len(terminating)) >= 4, (sizes, terminating)
