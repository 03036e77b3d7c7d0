"""Property 2, the exact part: no eviction for a claim that fits without, no superfluous victim, no early last resort.

The order of a cycle's evictions is the order of its claims. Where the order of other moves is unknown, the check takes
the one in which the claim had the least capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oracles.eviction_model import Member, World
from oracles.eviction_packing import Effort, FreeCapacity, Undecided, pack
from oracles.eviction_runner import Claim, Fault, Step
from oracles.eviction_search import Search
from oracles.eviction_shares import queue_allows
from oracles.eviction_victims import Victims


def check_needs(step: Step, first: World, config: dict[str, Any]) -> Iterator[Fault]:
    plan = step.cycle.plan
    gone: list[str] = []
    for i, claim in enumerate(step.claims):
        job, pods = step.before.jobs.get(claim.job), step.claimed(claim)
        if job is not None and pods:
            later = {m.key for other in step.claims[i:] for m in step.claimed(other)}
            placed = {key: node for key, node in plan.pipelined.items() if key not in later} | plan.binds
            then = step.before.after(placed, gone)
            search = Search(then, first, config, step.shares)
            moment = _Moment(search, claim, pods, plan.pipelined, exact=not placed)
            try:
                for kind, text in moment.faults(plan, step.before, gone):
                    yield Fault(kind, f"cycle {step.number}: {text}")
            except Undecided:
                pass
        gone += claim.victims


class _Moment:
    """The cluster when a claim was made."""

    def __init__(self, search: Search, claim: Claim, pods: list[Member], nodes: dict[str, str], *, exact: bool) -> None:
        """`exact`: no other move of the cycle can have come before the claim, or after it."""
        self.exact = exact
        self.search = search
        self.world = search.world
        self.claim = claim
        self.pods = pods
        self.nodes = nodes
        self.job = self.world.jobs[claim.job]
        self.asked = {name for m in pods for name, amount in m.request.items() if amount and name != "pods"}

    def faults(self, plan: Any, before: World, gone: list[str]) -> Iterator[tuple[str, str]]:
        claim, search = self.claim, self.search
        text = f"{claim.rule} of {claim.victims} for {[m.key for m in self.pods]}"
        effort = Effort()
        if search.permits(self.job, self.pods, "allocate", set()):
            found = pack(self._capacity(set()), self.pods, effort)
            if found is not None:
                yield "P2 needless", f"{text}, which fit without: {found}"
                return
        for unit in self._reprieves(before, gone, effort):
            if unit and self._works_with(set(claim.victims) - unit):
                yield "P2 superfluous victim", f"{text}: {sorted(unit)} could stay"
                break
        if not self.exact:
            return
        if claim.rule == "preempt" and "reclaim" in search.actions:
            way = self._reclaim(effort)
            if way is not None:
                yield "P3 preempt instead of reclaim", f"{text}; reclaim could take {sorted(way)}"
        if claim.rule == "reclaim":
            late = list(queue_allows(before, search.shares, plan, gone, claim.victims, self.asked, last_resort=False))
            if late and (way := self._reclaim(effort)) is not None:
                yield "P3 early last resort", f"{text}; {sorted(way)} are enough"
        if len(self.pods) == 1 and (better := self._preferred(effort)) is not None:
            yield "R2 preference", f"{text}; {sorted(better)} are preferred"

    def _capacity(self, victims: set[str]) -> FreeCapacity:
        return FreeCapacity(self.world, self.job, victims, self.search.groups)

    def _reprieves(self, before: World, gone: list[str], effort: Effort) -> Iterator[set[str]]:
        """Sets of victims that may stay by the rules of gangs: a surplus pod, a whole job, all but surplus pods of it.

        Several claims of one job in one cycle cannot be distinguished; then there is no complaint.
        """
        missing = self.job.minimum - len(self.job.of("placed"))
        if len(set(self.claim.by)) > 1 and len(self.pods) > max(missing, 1):
            return
        jobs: dict[str, set[str]] = {}
        for key in self.claim.victims:
            jobs.setdefault(before.members[key].job, set()).add(key)
        units = Victims(before, self.search.first, self.search.shares, self.job, effort)
        for name, victims in jobs.items():
            fit = [before.members[key] for key in sorted(victims)]
            if victims == {m.key for m in before.jobs[name].of("placed")} - {*gone}:
                yield victims
                if not gone:
                    for choice in units.choices(before.jobs[name], fit, whole=False):
                        rest = set(self.claim.victims) - victims | set(choice.victims)
                        if self.claim.rule == "preempt" or units.keeps_shares(rest, self.asked):
                            yield victims - set(choice.victims)
            else:
                yield from ({key} for key in sorted(victims))

    def _works_with(self, victims: set[str]) -> bool:
        """Is the claim served on its nominated nodes with these victims only?"""
        if not self.search.permits(self.job, self.pods, self.claim.rule, victims):
            return False
        capacity = self._capacity(victims)
        for member in self.pods:
            node = self.nodes[member.key]
            if not capacity.allows(member, node) or any(
                capacity.free[node].get(n, 0) < v for n, v in member.request.items() if v
            ):
                return False
            for name, amount in member.request.items():
                capacity.free[node][name] = capacity.free[node].get(name, 0) - amount
            capacity.ports[node] |= member.ports
            capacity.apps[node].add(member.labels.get("app", ""))
        return True

    def _reclaim(self, effort: Effort) -> set[str] | None:
        """Victims of a reclaim that takes no queue below what it deserves."""
        victims = Victims(self.world, self.search.first, self.search.shares, self.job, effort)
        for some in victims.reclaimed(self.pods, last_resort=False):
            if self._serves("reclaim", some, effort):
                return some
        return None

    def _serves(self, rule: str, victims: set[str], effort: Effort) -> bool:
        permitted = self.search.permits(self.job, self.pods, rule, victims)
        return permitted and pack(self._capacity(victims), self.pods, effort, victims) is not None

    def _preferred(self, effort: Effort) -> set[str] | None:
        """Victims that are better in every reading of rule 2: of no higher priority, and fewer or of lower priority."""
        chosen = set(self.claim.victims)
        victims = Victims(self.world, self.search.first, self.search.shares, self.job, effort)
        if self.claim.rule == "preempt":
            sets = victims.preempted(self.pods, most=len(chosen)) if self.search.opinions else iter(())
        else:
            sets = victims.reclaimed(self.pods, last_resort=False, most=len(chosen))
        for some in sets:
            if self._better(some, chosen) and self._serves(self.claim.rule, some, effort):
                return some
        return None

    def _better(self, some: set[str], chosen: set[str]) -> bool:
        members = self.world.members
        ranks = [lambda m: m.priority, lambda m: self.world.jobs[m.job].priority]
        strictly = len(some) < len(chosen)
        for rank in ranks:
            one, other = (sorted((rank(members[v]) for v in vs), reverse=True) for vs in (some, chosen))
            if any(a > b for a, b in zip(one, other, strict=False)):
                return False
            strictly |= one < other[: len(one)]
        return strictly
