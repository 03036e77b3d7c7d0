"""The oracle of evictions against itself: the exhaustive search and the checks are two readings of the same rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from muster.engine.core.plan import Eviction, Plan
from oracles.eviction_checks import check_step
from oracles.eviction_model import Gang, World, world
from oracles.eviction_packing import Effort, FreeCapacity, pack
from oracles.eviction_runner import Cycle, Fault, Step, claims_of, tables_of
from oracles.eviction_search import Search, claims
from oracles.eviction_shares import plugins_of
from strategies.eviction_clusters import Scenario, scenario

MOST_VICTIMS = 8  # of what is tried set by set


class Asked:
    """The input of a scenario, before any cycle."""

    def __init__(self, made: Scenario) -> None:
        self.made = made
        self.tables = tables_of(made)
        classes = {o["metadata"]["name"]: o["value"] for o in made.objects if o["kind"] == "PriorityClass"}
        self.world: World = world(self.tables, classes)
        self.search = Search(self.world, self.world, made.config)

    def waiting(self) -> Iterator[tuple[Gang, str]]:
        for job in self.world.jobs.values():
            for rule in {"preempt", "reclaim"} & set(self.search.actions):
                if job.of("waiting"):
                    yield job, rule

    def faults(self, rule: str, placement: dict[str, str], victims: list[str]) -> list[Fault]:
        """What the checks say of a cycle that does just this."""
        by = min(placement)
        plan = Plan(pipelined=dict(placement))
        plan.evictions = [Eviction(v, self.world.members[v].node, by, rule) for v in victims]
        after = self.world.after({}, victims)
        made = list(claims_of(self.world, plan.evictions))
        step = Step(1, Cycle(0.0, self.tables, plan), self.world, after, self.search.shares, made, dict(placement))
        return check_step(step, self.made.config)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_what_the_search_finds_is_allowed_by_the_checks(first: int) -> None:
    found = 0
    for seed in range(first, first + 50):
        asked = Asked(scenario(seed))
        for job, rule in asked.waiting():
            way = asked.search.find(job, (rule,))
            if way is not None and way.victims:
                found += 1
                assert not asked.faults(rule, way.placement, way.victims), (seed, str(way))
    assert found > 5


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_what_the_search_does_not_find_is_forbidden_by_the_checks(first: int) -> None:
    """Every set of victims, tried one by one. Left out: what the search reads more strictly than the checks."""
    tried = 0
    for seed in range(first, first + 50):
        asked = Asked(scenario(seed))
        hierarchy = plugins_of(asked.made.config).get("capacity", {}).get("enableHierarchy", False)
        if hierarchy or asked.search.silenced or not asked.search.opinions:
            continue
        for job, rule in asked.waiting():
            priorities = {m.priority for m in job.of("waiting")}
            if len(priorities) > 1 or asked.search.find(job, (rule,)) is not None:
                continue
            own = [m for m in asked.world.members.values() if m.state == "placed" and m.job != job.key]
            near = [m for m in own if (asked.world.queue_of(m) == job.queue) == (rule == "preempt")]
            if len(near) > MOST_VICTIMS:
                continue
            tried += 1
            for pods in claims(job, Effort()):
                if not all(m.claims for m in pods):
                    continue
                for count in range(1, len(near) + 1):
                    for some in combinations(near, count):
                        victims = sorted(m.key for m in some)
                        capacity = FreeCapacity(asked.world, job, victims, asked.search.groups)
                        placement = pack(capacity, pods, Effort(), victims)
                        if placement is not None:
                            assert asked.faults(rule, placement, victims), (seed, rule, placement, victims)
    assert tried > 5


def _kinds(asked: Asked, rule: str, claimer: Gang, victims: list[str]) -> set[str]:
    pod = claimer.of("waiting")[0].key
    node = asked.world.members[victims[0]].node
    return {fault.kind for fault in asked.faults(rule, {pod: node}, victims)}


def test_forbidden_victims_are_recognised() -> None:
    """Every rule that a single victim breaks is named, on the first clusters that have such a victim."""
    seen: dict[str, int] = {}
    for seed in range(150):
        asked = Asked(scenario(seed))
        world = asked.world
        claimers = [job for job in world.jobs.values() if job.of("waiting")]
        for victim in (m for m in world.members.values() if m.state == "placed"):
            job = world.jobs[victim.job]
            for claimer in (c for c in claimers if c is not job):
                rule = "preempt" if claimer.queue == job.queue else "reclaim"
                expected = set()
                held = job.of("placed")
                if len(held) > 1 and job.complete(held) and len(held) == job.minimum:
                    expected.add("P3 partial gang")
                if rule == "preempt" and job.priority >= claimer.priority:
                    expected.add("P3 priority")
                if rule == "reclaim" and world.queues[job.queue].spec.reclaimable is False:
                    expected.add("P3 queue below deserved")
                if not victim.preemptable:
                    expected.add("P3 protected pod")
                found = _kinds(asked, rule, claimer, [victim.key])
                assert expected <= found, (seed, victim.key, claimer.key, found)
                assert "P3 wrong queue" in _kinds(
                    asked, {"preempt": "reclaim"}.get(rule, "preempt"), claimer, [victim.key]
                )
                for kind in expected:
                    seen[kind] = seen.get(kind, 0) + 1
    assert len(seen) == 4 and min(seen.values()) > 10, seen
