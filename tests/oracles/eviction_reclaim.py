"""What the queues of the claimer and of the victims allow: the share rules of spec volcano.md §12, rules 1 and 3."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations

from muster.engine.core.plan import Plan
from oracles.eviction_model import Amounts, Gang, Member, World, total
from oracles.eviction_shares import Shares, at_most

Unit = tuple[bool, Amounts]  # a whole job?, its requests
MOST_PERMUTED = 5


def counted(request: Iterable[str], named: Collection[str]) -> set[str]:
    """The resources that count: the named ones, or all of them if none is named."""
    asked = {name for name in request if name != "pods"}
    return asked & set(named) or asked


def excess(shares: Shares, queue: str, request: Mapping[str, int], held: Mapping[str, float]) -> set[str]:
    """The resources of the unit of which the queue holds more than it deserves."""
    deserved = shares.deserved.get(queue, {})
    names = counted((n for n, amount in request.items() if amount), shares.named.get(queue, ()))
    return {n for n in names if held.get(n, 0) > deserved.get(n, 0)}


def queue_allows(
    world: World,
    shares: Shares,
    plan: Plan,
    gone: Sequence[str],
    victims: Sequence[str],
    asked: Collection[str],
    last_resort: bool = True,
) -> Iterator[str]:
    """Complaints about the victims of one reclaim; a queue may give them in whatever order is allowed.

    `last_resort`: a whole job may take its queue below what it deserves.
    """
    before = [world.members[v] for v in gone]
    later = set(plan.binds) | set(plan.pipelined)
    for queue in sorted({world.queue_of(world.members[v]) for v in victims}):
        if world.queues[queue].spec.reclaimable is False:
            yield f"queue {queue} is not reclaimable"
            continue
        held = total(
            m.request for m in world.members.values()
            if world.queue_of(m) == queue and (m.state == "held" or m.key in later) and m not in before
        )  # fmt: skip
        units = list(_units(world, queue, victims, {*gone, *victims}))
        if not last_resort:
            units = [(False, request) for _, request in units]
        orders = permutations(units) if len(units) <= MOST_PERMUTED else iter([sorted(units, key=lambda u: u[0])])
        if not any(_allowed(shares, queue, order, held, asked) for order in orders):
            deserved = shares.deserved.get(queue, {})
            yield f"queue {queue} holds {held}, deserves {deserved}, gives {[r for _, r in units]}"


def _units(world: World, queue: str, victims: Sequence[str], gone: set[str]) -> Iterator[Unit]:
    jobs: dict[str, list[Member]] = {}
    for key in victims:
        member = world.members[key]
        if world.queue_of(member) == queue:
            jobs.setdefault(member.job, []).append(member)
    for job, members in jobs.items():
        if {m.key for m in world.jobs[job].of("held")} <= gone:
            yield True, total(m.request for m in members)
        else:
            yield from ((False, dict(m.request)) for m in members)


def _allowed(
    shares: Shares, queue: str, units: Sequence[Unit], held: Mapping[str, int], asked: Collection[str]
) -> bool:
    left = dict(held)
    deserved = shares.deserved.get(queue, {})
    for whole, request in units:
        over = excess(shares, queue, request, left)
        if not over & set(asked):
            return False
        for name, amount in request.items():
            left[name] = left.get(name, 0) - amount
        if not whole and any(not at_most(deserved.get(n, 0), left[n], generous=True) for n in over):
            return False
    return True


def within_share(world: World, shares: Shares, plan: Plan, claimer: Gang, rule: str, pods: Sequence[Member]) -> str:
    """A complaint if the claimer's queue ends above what the rule allows."""
    gone = {e.pod for e in plan.evictions}
    queue = claimer.queue
    claim = total(m.request for m in pods)
    held = world.held(queue)
    after = total([world.held(queue, (m for m in world.members.values() if m.key not in gone)), claim])
    names = counted(claim, shares.named.get(queue, ())) if rule == "reclaim" else set(claim) - {"pods"}
    limits = shares.deserved if rule == "reclaim" else shares.limit
    if queue not in limits:
        return ""
    more = {*plan.binds, *plan.pipelined}
    used = total([held, *(m.request for m in world.members.values() if m.key in more and world.queue_of(m) == queue)])
    for name in sorted(names):
        limit = limits[queue].get(name, 0.0 if rule == "reclaim" else float("inf"))
        if rule == "preempt":
            limit = max(limit, used.get(name, 0) - claim.get(name, 0))
        if claim[name] and not at_most(after.get(name, 0), limit, generous=True):
            return f"{rule} for {claimer.key}: queue {queue} would hold {after[name]} {name}, {limit} allowed"
    return ""
