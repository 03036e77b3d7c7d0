"""Property 5: pending means impossible. An exhaustive search for a placement that the rules allow.

The search takes the stricter reading wherever the spec leaves a choice, so a placement that it finds is one that the
scheduler must find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from oracles.eviction_model import Gang, Member, World, total
from oracles.eviction_packing import Effort, FreeCapacity, Undecided, pack
from oracles.eviction_shares import Shares, at_most, counted, plugins_of, shares
from oracles.eviction_victims import Victims

MOST_PODS = 6  # of a claim that must be decided


@dataclass
class Found:
    """A way to serve a pending job."""

    rule: str  # allocate, preempt or reclaim
    pods: list[Member]
    placement: dict[str, str]
    victims: list[str]

    @property
    def size(self) -> str:
        if len(self.pods) == 1:
            return "single"
        equal = len({m.shape for m in self.pods}) == 1
        return "equal" if equal else "mixed" if len(self.pods) <= MOST_PODS else "beyond"

    def __str__(self) -> str:
        return f"{self.rule}: {self.placement}, victims {sorted(self.victims)}"


class Search:
    def __init__(self, world: World, first: World, config: dict[str, Any], given: Shares | None = None) -> None:
        """`first`: the cluster of the input, for budgets with a status. `given`: the shares of the cycle."""
        self.world = world
        self.first = first
        self.shares = given or shares(world, config)
        plugins = plugins_of(config)
        self.groups = "nodegroup" in plugins
        self.actions = [name.strip() for name in config["actions"].split(",")]
        # drf beside priority may protect victims by its own shares, which are not modelled here.
        names = [{plugin["name"] for plugin in tier["plugins"]} for tier in config["tiers"]]
        self.opinions = not any({"priority", "drf"} <= tier for tier in names)
        # What is left to name victims if a plugin may not is not decided by the spec.
        off = ("enablePreemptable", "enableReclaimable")
        self.silenced = any(plugin.get(flag) is False for plugin in plugins.values() for flag in off)

    def find(self, job: Gang, rules: Collection[str] = ("allocate", "preempt", "reclaim")) -> Found | None:
        """A way to serve the job; None if there is none. Raises Undecided."""
        if job.queue not in self.world.queues or not job.of("waiting"):
            return None
        effort = Effort()
        for pods in claims(job, effort):
            for rule in rules:
                found = self._serve(job, pods, rule, effort) if rule in self.actions else None
                if found is not None:
                    return found
        return None

    def _serve(self, job: Gang, pods: list[Member], rule: str, effort: Effort) -> Found | None:
        if rule != "allocate" and (self.silenced or not all(m.claims for m in pods)):
            return None
        for victims in self._victims(job, pods, rule, effort):
            if not self.permits(job, pods, rule, victims):
                continue
            capacity = FreeCapacity(self.world, job, victims, self.groups)
            placement = pack(capacity, pods, effort, victims)
            if placement is not None:
                return Found(rule, pods, placement, sorted(victims))
        return None

    def reduced(self, job: Gang, way: Found) -> Found:
        """The same claim without the jobs that need not give anything."""
        for other in sorted({self.world.members[v].job for v in way.victims}):
            fewer = {v for v in way.victims if self.world.members[v].job != other}
            if self.permits(job, way.pods, way.rule, fewer):
                placement = pack(FreeCapacity(self.world, job, fewer, self.groups), way.pods, Effort(), fewer)
                if placement is not None:
                    way = Found(way.rule, way.pods, placement, sorted(fewer))
        return way

    def _victims(self, job: Gang, pods: list[Member], rule: str, effort: Effort) -> Iterator[set[str]]:
        if rule == "allocate":
            yield set()
            return
        victims = Victims(self.world, self.first, self.shares, job, effort)
        if rule == "reclaim":
            yield from victims.reclaimed(pods)
        elif self.opinions:
            yield from victims.preempted(pods)

    def permits(self, job: Gang, pods: list[Member], rule: str, victims: set[str]) -> bool:
        claim = total(m.request for m in pods)
        asked = {name for name, amount in claim.items() if amount and name != "pods"}
        queue, known = job.queue, self.shares
        if rule == "reclaim":
            if queue not in known.deserved:
                return False
            deserved, held = known.deserved[queue], self.world.allocated(queue)
            for name in counted(asked, known.named.get(queue, ())):
                if not at_most(held.get(name, 0) + claim.get(name, 0), deserved.get(name, 0), generous=False):
                    return False
        for each in [queue, *known.above.get(queue, [])]:
            limit = known.limit.get(each)
            if limit is None:
                continue
            tree = self.below(each)
            before = total(m.request for m in self.world.members.values() if self.holds(m, tree))
            kept = total(m.request for m in self.world.members.values() if self.holds(m, tree) and m.key not in victims)
            for name in asked:
                most = limit.get(name, float("inf"))
                if rule == "preempt":
                    most = max(most, before.get(name, 0))
                if not at_most(kept.get(name, 0) + claim[name], most, generous=False):
                    return False
        return True

    def below(self, queue: str) -> set[str]:
        return {queue, *(name for name, above in self.shares.above.items() if queue in above)}

    def holds(self, member: Member, queues: set[str]) -> bool:
        return member.state == "placed" and self.world.queue_of(member) in queues


def claims(job: Gang, effort: Effort) -> Iterator[list[Member]]:
    """The sets of pending pods that a claim may be for: one pod, or pods that bring the job to its minimum."""
    held, waiting = job.of("placed"), job.of("waiting")
    if job.complete(held):
        # One pod alone would leave a sub-group below its size.
        count = Counter(m.part for m in held if m.part is not None)
        alone = [m for m in waiting if m.part is None or count[m.part] + 1 >= job.size]
        yield from ([m] for m in {repr(m.shape): m for m in alone}.values())
        return
    if not job.complete([*held, *waiting]):
        return
    for count in range(max(job.minimum - len(held), 1), len(waiting) + 1):
        seen = set()
        for some in combinations(waiting, count):
            effort.step()
            shapes = tuple(sorted(repr(m.shape) for m in some))
            if shapes in seen:
                continue
            seen.add(shapes)
            if job.complete([*held, *some]) and _minimal(job, held, some):
                yield list(some)


def _minimal(job: Gang, held: Sequence[Member], some: Sequence[Member]) -> bool:
    return not any(job.complete([*held, *some[:i], *some[i + 1 :]]) for i in range(len(some)))


def misses(world: World, first: World, config: dict[str, Any]) -> tuple[list[tuple[str, str]], int, int]:
    """The pending jobs that could be served (kind, text), how many jobs were asked about, how many are undecided."""
    search = Search(world, first, config)
    found: list[tuple[str, str]] = []
    asked = undecided = 0
    for key, job in world.jobs.items():
        if not job.of("waiting"):
            continue
        asked += 1
        try:
            way = search.find(job)
        except Undecided:
            undecided += 1
            continue
        if way is not None:
            kind = "at enqueue" if held_at_enqueue(search, job, config) else way.size
            found.append((f"P5 {way.rule} {kind}", f"{key}: {search.reduced(job, way)}"))
    return found, asked, undecided


def held_at_enqueue(search: Search, job: Gang, config: dict[str, Any]) -> bool:
    """May enqueue hold the job back because of what other admitted jobs reserve?"""
    least = job.min_resources
    if "enqueue" not in search.actions or least is None or job.complete(job.of("placed")):
        return False
    if job.phase not in ("Pending", "?"):
        return False
    world, plugins = search.world, plugins_of(config)
    others = [
        other for other in world.jobs.values()
        if other is not job and other.of("waiting") and other.phase != "Pending" and other.min_resources
    ]  # fmt: skip
    reserved: Counter[str] = Counter()
    for other in others:
        reserved.update(other.min_resources or {})
    if not reserved:
        return False
    held = total(m.request for m in world.members.values() if m.state == "placed")
    if "overcommit" in plugins:
        factor = plugins["overcommit"].get("arguments", {}).get("overcommit-factor", 1.2)
        offered = total(world.offered.values())
        if any(reserved[n] + amount > offered.get(n, 0) * factor - held.get(n, 0) for n, amount in least.items()):
            return True
    for each in [job.queue, *search.shares.above.get(job.queue, [])]:
        real = search.shares.real.get(each, {})
        tree = search.below(each)
        kept = total(m.request for m in world.members.values() if search.holds(m, tree))
        if any(reserved[n] + amount + kept.get(n, 0) > real.get(n, 1e18) for n, amount in least.items()):
            return True
    return False
