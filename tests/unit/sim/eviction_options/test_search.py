"""The options of a pending pod: who would have to go, and which rule protects whom, with the inequality in numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.manifests import Manifest, group, node, pod, priority_class, queue, state_of
from builders.queued_jobs import budget, session, task
from builders.racks import RACK, gang, gpu_node, members, topology
from muster.engine.core.session import Session
from muster.model.meta import Object
from muster.sim.eviction_options import EvictionOption, eviction_options

PLUGINS = ("gang", "priority", "conformance", "proportion")
LOW = {"priority": 1, "labels": {"app": "v"}}


def opened(*objects: Object | Manifest, plugins: tuple[str, ...] = PLUGINS, on: str = "q") -> Session:
    """One node of 2 cpu, and the claimer default/new of priority 10 that wants both."""
    classes = [priority_class("low", 1), priority_class("high", 10)]
    claimer = [group("new", on, phase="Inqueue", priorityClassName="high"), pod("new", "new", cpu=2, priority=10)]
    queues = [queue("q"), queue("other")]
    return session(state_of(*classes, node(cpu=2), *queues, *claimer, *objects), *plugins)


def running(count: int = 2, least: int = 1, on: str = "q", cpu: int = 1, **more: Any) -> list[Manifest]:
    more = {**LOW, **more}
    pods = [pod(f"v-{i}", "v", "n1", cpu=cpu, **more) for i in range(count)]
    return [group("v", on, minMember=least, phase="Running", priorityClassName="low"), *pods]


def only(live: Session, pod: str = "new") -> EvictionOption:
    (option,) = eviction_options(live, task(live.state, pod))
    return option


def test_a_possible_option_names_everybody_who_would_go() -> None:
    option = only(opened(*running()))
    assert (option.where, option.possible, option.action) == ("n1", True, "preempt")
    assert sorted(victim.pod for victim in option.victims) == ["default/v-0", "default/v-1"]
    assert option.text == "preempt would evict default/v-1, default/v-0" and not option.protected
    victim = option.to_dict()["victims"][1]  # type: ignore[index]
    assert victim == {"pod": "default/v-0", "group": "default/v", "queue": "q", "priority": 1, "node": "n1"}


def test_what_is_tried_is_undone() -> None:
    live = opened(*running())
    before = live.state.nodes.rows.copy()
    only(live)
    assert (live.state.nodes.rows == before).all() and not live.committed
    assert [one.status.name for one in live.state.tasks.values()] == ["PENDING", "RUNNING", "RUNNING"]


def test_without_a_need_for_evictions_there_are_no_options() -> None:
    live = opened()
    assert eviction_options(live, task(live.state, "new")) == []


@pytest.mark.parametrize(
    ("objects", "rule", "plugin", "text"),
    [
        (running(1, cpu=2, priority=10), "priority", "", "priority 10 is not lower than 10"),
        (
            [*running(1, cpu=2), budget("keep", {"app": "v"}, minAvailable=1)], "budget", "",
            "PodDisruptionBudget default/keep allows 0 more disruptions: 1 healthy, 1 required",
        ),
        (
            running(1, cpu=2, annotations={"volcano.sh/preemptable": "false"}), "not-preemptable", "",
            'annotation volcano.sh/preemptable: "false"',
        ),
        (
            running(1, cpu=2, priorityClassName="system-node-critical"), "conformance", "conformance",
            "system-node-critical is protected by conformance",
        ),
        (
            [pod("v-0", "", "n1", cpu=2, schedulerName="other")], "other-scheduler", "",
            "it belongs to the scheduler other",
        ),
        (
            running(1, cpu=2, on="other"), "other-queue", "",
            "it is in queue other; reclaim: queue q: cpu requested 2 + allocated 0 > deserved 1",
        ),
    ],
)  # fmt: skip
def test_each_protection_is_named_with_its_numbers(
    objects: list[Manifest | Object], rule: str, plugin: str, text: str
) -> None:
    option = only(opened(*objects))
    assert not option.possible and option.action == "" and option.victims == []
    found = {one.pod: one for one in option.protected}["default/v-0"]
    assert (found.rule, found.plugin) == (rule, plugin)
    assert text in found.text, found.text


def test_a_gang_says_what_forbids_its_eviction_as_a_whole() -> None:
    live = opened(*running(2, least=2), budget("keep", {"app": "v"}, 1))
    texts = {one.text for one in only(live).protected}
    assert texts == {
        "gang default/v needs 2 of its 2 running pods; all 2 together: "
        "PodDisruptionBudget default/keep allows 1 more disruptions: 0 healthy, 0 required"
    }


def test_reclaim_names_the_share_that_the_queue_keeps() -> None:
    live = opened(
        *running(2, on="other"), group("small", "q", phase="Inqueue"), pod("small", "small", cpu="500m"),
        pod("v-2", "v", "n1", cpu=0, **LOW),
    )  # fmt: skip
    option = only(live, "small")
    assert option.possible and option.action == "reclaim"
    texts = {one.pod: one.text for one in option.protected}
    assert "queue other deserves 1 cpu and would keep 0 cpu" in texts["default/v-0"]


def test_the_sentence_counts_the_rules() -> None:
    option = only(opened(*running(1, priority=10), pod("x", "", "n1", schedulerName="other")))
    assert option.text == (
        "needs 2 cpu and 0 would be free after 0 possible evictions; "
        "2 pods are protected: 1 by belonging to another scheduler, 1 by priority"
    )


def test_a_configuration_without_evictions_says_so() -> None:
    live = opened(*running())
    live.config = replace(live.config, actions=("enqueue", "allocate"))
    assert only(live).text == "the configuration has neither preempt nor reclaim"


def test_a_pod_that_may_not_preempt_says_so() -> None:
    live = opened(
        *running(), group("shy", "q", phase="Inqueue"), pod("shy", "shy", cpu=2, preemptionPolicy="Never", priority=10)
    )
    assert only(live, "shy").text == "reclaim: preemptionPolicy is Never; preempt: preemptionPolicy is Never"


def test_a_gang_has_one_option_for_each_domain() -> None:
    nodes = [gpu_node(f"{rack}-{i}", gpus=1, rack=rack) for rack in "ab" for i in range(2)]
    busy = [gang("run", 1, phase="Running", priorityClassName="low"), *members("run", 2, on="a-0")]
    stays = [gang("stays", 1, phase="Running", priorityClassName="high"), *members("stays", 1, on="b-0", priority=9)]
    state = state_of(
        topology(RACK), priority_class("low", 1), priority_class("high", 9), queue(), *nodes, *busy, *stays,
        gang("job", 2, RACK, priorityClassName="high"), *members("job", 2, priority=9),
    )  # fmt: skip
    live = session(state, *PLUGINS, "topology")
    found = {option.where: option for option in eviction_options(live, task(state, "d/job-0"))}
    assert {where: option.possible for where, option in found.items()} == {"tree a": True, "tree b": False}
    assert [one.rule for one in found["tree b"].protected] == ["priority"]
