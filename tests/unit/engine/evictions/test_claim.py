"""Eviction units: surplus pods one by one, otherwise whole jobs; minima of roles and sub-groups; priorities."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, group, node, pod, queue, state_of
from builders.queued_jobs import made, of, session, task
from muster.actions.victim_pool import VictimPool, giving
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.evictions.claim import PREEMPT, RECLAIM, Claim, Unit, Units, effective_priority
from muster.engine.evictions.victims import Opinions
from muster.model.meta import Object

ROLE, PART = "volcano.sh/task-spec", "kai.scheduler/subgroup-name"
CLASSES = [made("scheduling.k8s.io/v1", "PriorityClass", {"name": n}, value=v) for n, v in (("low", 1), ("high", 10))]


def opened(
    *objects: Object | Manifest, plugins: tuple[str, ...] = ("gang", "priority", "conformance")
) -> tuple[Session, Units]:
    """The objects, and the claimer default/new of high priority in the queue q."""
    claimer = [group("new", "q", phase="Inqueue", priorityClassName="high"), pod("new", "new", priority=10)]
    state = state_of(*CLASSES, node(cpu=10), queue("q"), queue("other"), *claimer, *objects)
    live = session(state, *plugins)
    return live, Units(live)


def running(name: str, count: int, least: int = 1, **more: Any) -> list[Manifest]:
    pods = [pod(f"{name}-{i}", name, "n1") for i in range(count)]
    return [group(name, "q", minMember=least, phase="Running", **more), *pods]


def claim(live: Session, rule: str = PREEMPT, **more: Any) -> Claim:
    new = of(live.state, "new")
    assert new.queue is not None
    return Claim(rule, new, new.queue, [task(live.state, "new")], **more)


def whole_of(live: Session, job: str, **more: Any) -> Unit | None:
    units, asked = Units(live), claim(live, **more)
    pool = VictimPool(live, units, Opinions(live, PREEMPT), asked, giving(live, units, asked))
    return pool.whole(of(live.state, job))


def candidate(units: Units, asked: Claim, victim: Task) -> bool:
    assert victim.job is not None
    return victim in units.candidates(asked, victim.job)


def surplus(live: Session, units: Units, *names: str) -> list[str]:
    """Those that may go one after the other, each with the ones before it gone."""
    asked, statement, gone = claim(live), live.statement(), []
    for name in names:
        one = task(live.state, name)
        if units.protected(asked, units.single(one)) is None:
            statement.evict(one, asked.tasks[0], PREEMPT)
            gone.append(name)
    return gone


def test_pods_above_the_minimum_go_one_by_one_and_no_further() -> None:
    live, units = opened(*running("v", 3, least=2))
    assert surplus(live, units, "v-0", "v-1", "v-2") == ["v-0"]
    veto = units.protected(claim(live), units.single(task(live.state, "v-2")))
    assert veto is not None and veto.reason.message() == "gang default/v needs 2 of its 2 running pods"


def test_beyond_that_all_its_pods_that_hold_a_node_go_together() -> None:
    live, units = opened(*running("v", 3, least=2), pod("v-waits", "v"))
    whole = whole_of(live, "v")
    assert whole is not None and whole.whole
    assert [t.name for t in whole.tasks] == ["v-0", "v-1", "v-2"]
    assert units.protected(claim(live), whole) is None


def test_a_job_below_its_minimum_is_one_unit() -> None:
    live, units = opened(*running("v", 2, least=3))
    assert surplus(live, units, "v-0", "v-1") == []
    assert whole_of(live, "v") is not None


def test_a_whole_job_goes_only_if_each_of_its_pods_may() -> None:
    live, _ = opened(*running("v", 2, least=3), pod("v-2", "v", "n1", priority=10))
    assert whole_of(live, "v") is None
    live, _ = opened(*running("v", 2, least=3), pod("v-2", "v", "n1", priorityClassName="system-node-critical"))
    assert whole_of(live, "v") is None


def test_a_job_that_gets_pods_in_this_cycle_is_left_alone() -> None:
    live, _ = opened(*running("v", 2, least=3), pod("v-2", "v"))
    live.statement().allocate([task(live.state, "v-2")], [0])
    assert whole_of(live, "v") is None


def test_a_unit_of_which_some_has_gone_is_no_unit_any_more() -> None:
    live, units = opened(*running("v", 2, least=2))
    whole = whole_of(live, "v")
    assert whole is not None
    live.statement().evict(task(live.state, "v-0"), None, PREEMPT)
    assert units.protected(claim(live), whole) is not None


def test_every_role_keeps_its_minimum() -> None:
    pods = [pod(f"v-{r}{i}", "v", "n1", annotations={ROLE: r}) for r in ("m", "w") for i in range(2)]
    live, units = opened(group("v", "q", minMember=2, phase="Running", minTaskMember={"m": 1, "w": 1}), *pods)
    assert surplus(live, units, "v-m0", "v-m1", "v-w0", "v-w1") == ["v-m0", "v-w0"]


def test_minima_of_roles_do_not_count_if_the_job_needs_fewer_pods() -> None:
    pods = [pod(f"v-{r}{i}", "v", "n1", annotations={ROLE: r}) for r in ("m", "w") for i in range(2)]
    live, units = opened(group("v", "q", phase="Running", minTaskMember={"m": 1, "w": 1}), *pods)
    assert surplus(live, units, "v-m0", "v-m1", "v-w0", "v-w1") == ["v-m0", "v-m1", "v-w0"]


def test_every_sub_group_keeps_its_minimum() -> None:
    pods = [pod(f"v-{p}{i}", "v", "n1", labels={PART: p}) for p in ("l", "r") for i in range(2)]
    parts = [{"name": "l", "minMember": 2}, {"name": "r", "minMember": 1}]
    live, units = opened(group("v", "q", minMember=2, phase="Running", subGroups=parts), *pods)
    assert surplus(live, units, "v-l0", "v-l1", "v-r0", "v-r1") == ["v-r0"]


@pytest.mark.parametrize(
    ("spec", "priorities", "effective"),
    [
        ({"priorityClassName": "low"}, (5, 7), 1),  # the class of the group
        ({}, (5, 7), 7),  # without one the highest of its pods
        ({"priorityClassName": "unknown"}, (5, 7), 7),
        ({}, (0, -3), 0),
    ],
)
def test_the_priority_of_a_job(spec: dict[str, Any], priorities: tuple[int, ...], effective: int) -> None:
    pods = [pod(f"v-{i}", "v", "n1", priority=p) for i, p in enumerate(priorities)]
    live, _ = opened(group("v", "q", phase="Running", **spec), *pods)
    assert effective_priority(of(live.state, "v")) == effective


@pytest.mark.parametrize(
    ("spec", "priority", "may"),
    [
        ({"priorityClassName": "low"}, 1, True),
        ({"priorityClassName": "low"}, 10, False),  # the pod is not below the claimer's
        ({"priorityClassName": "high"}, 1, False),  # the job is not
        ({}, 9, True),
        ({}, 10, False),
    ],
)
@pytest.mark.parametrize("plugins", [("gang", "priority"), ("gang",)])
def test_preempt_takes_lower_priorities_only_with_and_without_the_plugin(
    plugins: tuple[str, ...], spec: dict[str, Any], priority: int, may: bool
) -> None:
    live, units = opened(
        group("v", "q", phase="Running", **spec), pod("v", "v", "n1", priority=priority), plugins=plugins
    )
    assert candidate(units, claim(live), task(live.state, "v")) is may


def test_reclaim_ignores_priority_and_takes_from_other_queues() -> None:
    there = group("there", "other", phase="Running", priorityClassName="high")
    live, units = opened(there, pod("there", "there", "n1", priority=99), *running("here", 1))
    asked = claim(live, RECLAIM)
    assert candidate(units, asked, task(live.state, "there"))
    assert not candidate(units, asked, task(live.state, "here-0"))
    assert not candidate(units, claim(live), task(live.state, "there"))


def test_within_a_job_pods_of_lower_priority_are_replaced() -> None:
    mine = [pod("new-1", "new", "n1", priority=3), pod("new-2", "new", "n1", priority=10)]
    live, units = opened(*mine, *running("v", 1))
    asked = claim(live, within=True)
    assert [n for n in ("new-1", "new-2", "v-0") if candidate(units, asked, task(live.state, n))] == ["new-1"]
    assert whole_of(live, "new", within=True) is None


def test_the_preference_lower_priority_fewer_pods_surplus_the_newest() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    pair = running("pair", 2, least=2)
    alone = [group("alone", "q", phase="Running"), pod("alone", "alone", "n1")]
    dear = [group("dear", "q", minMember=0, phase="Running"), pod("dear", "dear", "n1", priority=5)]
    ages = enumerate((old, new))
    pods = [pod(f"aged-{i}", "aged", "n1", meta={"creationTimestamp": at}) for i, at in ages]
    aged = [group("aged", "q", minMember=0, phase="Running"), *pods]
    live, units = opened(*pair, *alone, *dear, *aged)
    state = live.state
    wholes = {n: whole_of(live, n) for n in ("pair", "alone")}
    found = {f"all of {n}": unit for n, unit in wholes.items() if unit is not None}
    found |= {n: units.single(task(state, n)) for n in ("dear", "aged-0", "aged-1")}
    order = sorted(found, key=lambda n: found[n].cost)
    assert order == ["aged-1", "aged-0", "all of alone", "all of pair", "dear"]
