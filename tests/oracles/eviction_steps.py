"""A played scenario as steps: each cycle with the cluster before and after it, and the claims that it made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.model import kinds
from oracles.eviction_model import Member, World, classes_of, world
from oracles.eviction_runner import Cycle, Played
from oracles.eviction_shares import Shares, shares


@dataclass
class Fault:
    kind: str
    text: str


@dataclass
class Claim:
    """The evictions that one cycle made for one job, in the order of the plan."""

    job: str
    rule: str
    by: list[str] = field(default_factory=list)  # pods
    victims: list[str] = field(default_factory=list)


@dataclass
class Step:
    """A cycle with the cluster before it and after its plan."""

    number: int
    cycle: Cycle
    before: World
    after: World
    shares: Shares
    claims: list[Claim]
    promised: dict[str, str]  # pods whose promise is new in this cycle

    def surely_claimed(self, claim: Claim) -> list[Member]:
        """The pods for which something was evicted; for a gang, as many promised pods as it needs, smallest first."""
        job = self.after.jobs[claim.job]
        sure = [self.before.members[by] for by in dict.fromkeys(claim.by)]
        missing = job.minimum - len(job.of("held")) - len(sure)
        others = sorted(
            (m for m in self.claimed(claim) if m.key not in claim.by), key=lambda m: sum(m.request.values())
        )
        return sure + others[: max(missing, 0)]

    def claimed(self, claim: Claim) -> list[Member]:
        """The pods that the claim is for."""
        job = self.before.jobs[claim.job]
        if len(job.of("held")) >= job.minimum:  # above its minimum a job claims pod by pod
            return [self.before.members[by] for by in dict.fromkeys(claim.by)]
        new = [self.before.members[key] for key in self.promised if key in self.before.members]
        return [m for m in new if m.job == claim.job]


def steps(played: Played) -> list[Step]:
    classes = classes_of(kinds.decode(o) for o in played.scenario.objects if o["kind"] == "PriorityClass")
    found: list[Step] = []
    promised: dict[str, str] = {}
    for number, cycle in enumerate(played.cycles, 1):
        before = world(cycle.tables, classes)
        plan = cycle.plan
        gone = {e.pod for e in plan.evictions}
        after = before.after(plan.binds, gone)
        new = {key: node for key, node in plan.nominated.items() if promised.get(key) != node}
        part = shares(before, played.scenario.config)
        found.append(Step(number, cycle, before, after, part, list(claims_of(before, plan.evictions)), new))
        promised = dict(plan.nominated)
    return found


def final_world(played: Played) -> World:
    classes = classes_of(kinds.decode(o) for o in played.scenario.objects if o["kind"] == "PriorityClass")
    return world(played.final, classes)


def claims_of(before: World, evictions: Iterable[Any]) -> Iterator[Claim]:
    current: Claim | None = None
    for eviction in evictions:
        claimer = before.members.get(eviction.by)
        job = claimer.job if claimer is not None else ""
        if current is None or (current.job, current.rule) != (job, eviction.rule):
            if current is not None:
                yield current
            current = Claim(job, eviction.rule)
        current.by.append(eviction.by)
        current.victims.append(eviction.pod)
    if current is not None:
        yield current
