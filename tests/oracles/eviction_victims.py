"""The sets of victims that the rules allow for a claim (spec volcano.md §12, rules 1 and 2), as far as they matter.

More victims never hurt a placement, so only sets that cannot be extended are produced. Where the spec leaves a choice,
the stricter reading counts: what is found here must be found by the scheduler, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from oracles.eviction_budgets import allowances, covering, uses
from oracles.eviction_model import Amounts, Gang, Member, World, total
from oracles.eviction_packing import Effort
from oracles.eviction_shares import Shares, at_most, excess


@dataclass(frozen=True)
class Choice:
    """What one job gives up."""

    job: str
    whole: bool
    victims: tuple[str, ...]


class Victims:
    """The eligible victims of one claim in one cluster."""

    def __init__(self, world: World, first: World, shares: Shares, claimer: Gang, effort: Effort) -> None:
        self.world = world
        self.shares = shares
        self.claimer = claimer
        self.effort = effort
        self.allowed = allowances(world, first, strict=True)

    # --- preempt

    def preempted(self, pods: Sequence[Member], most: int | None = None) -> Iterator[set[str]]:
        """`most`: all sets of up to that many pods instead of the largest ones."""
        priority = min(m.priority for m in pods)
        per_job = []
        for job in self.world.jobs.values():
            if job.queue != self.claimer.queue:
                continue
            own = job.key == self.claimer.key
            if own and not job.complete(job.of("placed")):
                continue
            if not own and job.priority >= self.claimer.priority:
                continue
            fit = [m for m in job.of("placed") if _eligible(m) and m.priority < priority]
            choices = self.choices(job, fit, whole=not own)
            if choices:
                sets = [set(c.victims) for c in choices]
                per_job.append(_maximal(sets) if most is None else [set(), *(s for s in sets if len(s) <= most)])
        yield from self._unions(per_job, most)

    def _unions(self, parts: Sequence[Sequence[set[str]]], most: int | None) -> Iterator[set[str]]:
        if not parts:
            self.effort.step()
            yield set()
            return
        for some in parts[0]:
            if most is None or len(some) <= most:
                for others in self._unions(parts[1:], None if most is None else most - len(some)):
                    yield some | others

    # --- reclaim

    def reclaimed(
        self, pods: Sequence[Member], last_resort: bool = True, most: int | None = None
    ) -> Iterator[set[str]]:
        asked = {name for m in pods for name, amount in m.request.items() if amount and name != "pods"}
        queues = []
        for name, queue in self.world.queues.items():
            if name == self.claimer.queue or queue.spec.reclaimable is False:
                continue
            jobs = [self._reclaimable(job) for job in self.world.jobs.values() if job.queue == name]
            jobs = [choices for choices in jobs if choices]
            if jobs:
                queues.append((name, jobs))
        normal = [[set(s) for s, _ in self._of_queue(name, jobs, asked)] for name, jobs in queues]
        if most is None:
            normal = [_maximal(sets) for sets in normal]
        yield from self._unions(normal, most)
        for i, (name, jobs) in enumerate(queues if last_resort else ()):
            resort = _maximal(list(self._last_resort(name, jobs, asked)))
            yield from self._unions([resort, *(n for j, n in enumerate(normal) if j != i)], None)

    def keeps_shares(self, victims: Collection[str], asked: Collection[str]) -> bool:
        """Does every queue keep what it deserves, without the last resort?"""
        left: dict[str, Amounts] = {}
        for job in {self.world.members[v].job for v in victims}:
            queue = self.world.jobs[job].queue
            some = tuple(v for v in victims if self.world.members[v].job == job)
            whole = len(some) == len(self.world.jobs[job].of("placed"))
            held = self.world.allocated(queue)
            kept = self._after(queue, Choice(job, whole, some), held, left.get(queue, held), asked)
            if kept is None:
                return False
            left[queue] = kept
        return True

    def _reclaimable(self, job: Gang) -> list[Choice]:
        return self.choices(job, [m for m in job.of("placed") if _eligible(m)], whole=True)

    def _of_queue(
        self, name: str, jobs: list[list[Choice]], asked: Collection[str]
    ) -> Iterator[tuple[set[str], Amounts]]:
        """Every set of units that leaves the queue what it deserves, with what the queue keeps."""
        held = self.world.allocated(name)

        def from_(i: int, victims: set[str], left: Amounts) -> Iterator[tuple[set[str], Amounts]]:
            self.effort.step()
            if i == len(jobs):
                yield victims, left
                return
            for choice in jobs[i]:
                kept = self._after(name, choice, held, left, asked)
                if kept is not None:
                    yield from from_(i + 1, victims | set(choice.victims), kept)
            yield from from_(i + 1, victims, left)

        return from_(0, set(), held)

    def _after(self, name: str, choice: Choice, held: Amounts, left: Amounts, asked: Collection[str]) -> Amounts | None:
        """What the queue keeps if the choice goes; None if the queue's share forbids it."""
        deserved = self.shares.deserved.get(name, {})
        kept = dict(left)
        members = [self.world.members[v] for v in choice.victims]
        units = [total(m.request for m in members)] if choice.whole else [dict(m.request) for m in members]
        for unit in units:
            over = excess(self.shares, name, unit, held)
            if not over & set(asked):
                return None
            for resource, amount in unit.items():
                kept[resource] = kept.get(resource, 0) - amount
            if any(not at_most(deserved.get(r, 0) + _edge(deserved.get(r, 0)), kept[r], generous=False) for r in over):
                return None
        return kept

    def _last_resort(self, name: str, jobs: list[list[Choice]], asked: Collection[str]) -> Iterator[set[str]]:
        for i, choices in enumerate(jobs):
            whole = next((c for c in choices if c.whole), None)
            if whole is None:
                continue
            unit = total(self.world.members[v].request for v in whole.victims)
            for victims, left in self._of_queue(name, jobs[:i] + jobs[i + 1 :], asked):
                cautious = {
                    r: amount - _edge(self.shares.deserved.get(name, {}).get(r, 0)) for r, amount in left.items()
                }
                if excess(self.shares, name, unit, cautious) & set(asked):
                    yield victims | set(whole.victims)

    # --- units

    def choices(self, job: Gang, fit: list[Member], *, whole: bool) -> list[Choice]:
        """What the job may give: everything, or pods above its minimum. Largest first."""
        held = job.of("placed")
        found = []
        if whole and held and len(fit) == len(held) and self._within_budgets(held):
            found.append(Choice(job.key, True, tuple(m.key for m in held)))
        if job.complete(held):
            for count in range(min(len(fit), len(held) - job.minimum), 0, -1):
                seen = set()
                for some in combinations(fit, count):
                    # Pods that are equal and lie on one node are interchangeable.
                    shapes = tuple(sorted((m.node, repr(m.shape), tuple(covering(self.world, m))) for m in some))
                    if shapes not in seen and _keeps(job, held, some) and self._within_budgets(some):
                        seen.add(shapes)
                        found.append(Choice(job.key, False, tuple(m.key for m in some)))
        return [c for c in found if c.whole or len(c.victims) < len(held) or not job.minimum]

    def _within_budgets(self, members: Sequence[Member]) -> bool:
        """Every budget of the generator covers one job, so jobs can be asked one by one."""
        return all(count <= self.allowed[budget] for budget, count in uses(self.world, members).items())


def _edge(deserved: float) -> float:
    """Shares that are not whole numbers are kept at a distance."""
    return 0.0 if float(deserved).is_integer() else 2.0


def _eligible(member: Member) -> bool:
    return member.preemptable and not member.critical


def _keeps(job: Gang, held: Sequence[Member], gone: Sequence[Member]) -> bool:
    """Do the job, every role and every sub-group keep their minimum?"""
    out = {m.key for m in gone}
    left = [m for m in held if m.key not in out]
    if not job.complete(left):
        return False
    roles, had_roles = Counter(m.role for m in left), Counter(m.role for m in held)
    if any(roles[role] < min(least, had_roles[role]) for role, least in job.roles.items()):
        return False
    parts, had = Counter(m.part for m in left), Counter(m.part for m in held)
    return not job.size or all(parts[part] >= min(job.size, count) for part, count in had.items() if part is not None)


def _maximal(sets: list[set[str]]) -> list[set[str]]:
    """The sets that are no part of another one."""
    found: list[set[str]] = []
    for some in sorted(sets, key=len, reverse=True):
        if not any(some <= other for other in found):
            found.append(some)
    return found or [set()]
