"""What queues deserve and may hold at most, computed from the objects alone (spec volcano.md §4), and what that allows
the queues of the claimer and of the victims (§12, rules 1 and 3).

Shares of proportion are not always whole numbers. `at_most` is exact on whole numbers, and has a margin elsewhere
that is on the cautious side of whoever asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from muster.engine.core.plan import Plan
from muster.model.requests import amounts
from muster.model.scheduling import Queue
from oracles.eviction_model import Amounts, Gang, Member, World, total

MARGIN = 1.0  # far below any request, far above any rounding error


@dataclass
class Shares:
    """By queue. A limit that names no resource does not limit it."""

    deserved: dict[str, dict[str, float]]
    limit: dict[str, dict[str, float]]  # what allocate asks: deserved of proportion, real capability of capacity
    real: dict[str, dict[str, float]]
    above: dict[str, list[str]] = field(default_factory=dict)  # ancestors whose limits hold, too
    named: dict[str, set[str]] = field(default_factory=dict)  # resources that `deserved` names


def plugins_of(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {plugin["name"]: plugin for tier in config["tiers"] for plugin in tier["plugins"]}


def at_most(amount: float, limit: float, *, generous: bool) -> bool:
    """Exact where both are whole numbers; what is divided by weight is as exact as its arithmetic."""
    if float(limit).is_integer() and float(amount).is_integer():
        return amount <= limit
    return amount <= limit + (MARGIN if generous else -MARGIN)


def shares(world: World, config: Mapping[str, Any]) -> Shares:
    plugins = plugins_of(config)
    whole = total(world.offered.values())
    if "proportion" in plugins:
        return _proportion(world, whole)
    if "capacity" in plugins:
        if plugins["capacity"].get("enableHierarchy"):
            return _tree(world.queues, whole)
        return _flat(world.queues, whole)
    return Shares({}, {}, {})


def guarantee(queue: Queue) -> Amounts:
    return amounts(queue.spec.guarantee.resource) if queue.spec.guarantee is not None else {}


def _real(offered: Mapping[str, float], queues: Iterable[Queue], queue: Queue, capability: Amounts) -> dict[str, float]:
    kept = total(guarantee(other) for other in queues)
    own = guarantee(queue)
    real = {name: max(amount - kept.get(name, 0), 0) + own.get(name, 0) for name, amount in offered.items()}
    return {name: min(amount, capability.get(name) or amount) for name, amount in real.items()}


def _deserved(queue: Queue, most: Mapping[str, float]) -> dict[str, float]:
    given = amounts(queue.spec.deserved)
    found: dict[str, float] = {name: min(amount, most.get(name, amount)) for name, amount in given.items()}
    for name, amount in guarantee(queue).items():
        found[name] = max(found.get(name, 0), amount)
    return found


def _flat(queues: Mapping[str, Queue], whole: Amounts) -> Shares:
    real = {n: _real(whole, queues.values(), q, amounts(q.spec.capability)) for n, q in queues.items()}
    deserved = {n: _deserved(q, real[n]) for n, q in queues.items()}
    return Shares(deserved, real, real, named={n: set(given) for n, given in deserved.items()})


def _tree(queues: Mapping[str, Queue], whole: Amounts) -> Shares:
    """The root is unlimited; every other queue has what its parent has beyond the siblings' guarantees."""
    found = Shares({}, {}, {})
    capability: dict[str, Amounts] = {"root": {}}
    found.real["root"] = {name: float(2**60) for name in whole}
    todo = ["root"]
    while todo:
        parent = todo.pop()
        below = [q for n, q in queues.items() if n != "root" and (q.spec.parent or "root") == parent]
        for queue in below:
            name = queue.metadata.name
            capability[name] = {**capability[parent], **amounts(queue.spec.capability)}
            found.real[name] = _real(found.real[parent], below, queue, capability[name])
            found.deserved[name] = _deserved(queue, {})
            found.named[name] = set(found.deserved[name])
            found.above[name] = [*found.above.get(parent, []), *([parent] if parent != "root" else [])]
            todo.append(name)
    found.limit = found.real
    return found


def _proportion(world: World, whole: Amounts) -> Shares:
    used = sorted({job.queue for job in world.jobs.values()} & world.queues.keys())
    queues = {name: world.queues[name] for name in used}
    every = world.queues.values()
    real = {n: _real(whole, every, q, amounts(q.spec.capability)) for n, q in queues.items()}
    wanted = {
        n: total(
            m.request for m in world.members.values() if m.state in ("placed", "waiting") and world.queue_of(m) == n
        )
        for n in used
    }
    deserved: dict[str, dict[str, float]] = {n: dict.fromkeys(whole, 0.0) for n in used}
    left: dict[str, float] = {name: float(amount) for name, amount in whole.items()}
    unmet = list(used)
    while unmet:
        weights = sum(max(queues[n].spec.weight, 1) for n in unmet)
        before, still, grown = dict(left), [], dict.fromkeys(whole, 0.0)
        for name in unmet:
            old, part = deserved[name], queues[name].spec.weight / weights
            new = {r: min(old[r] + left[r] * part, real[name][r], wanted[name].get(r, 0)) for r in whole}
            for r, least in guarantee(queues[name]).items():
                new[r] = max(new.get(r, 0.0), float(least))
            if new != old and any(wanted[name].get(r, 0) > new[r] for r in whole):
                still.append(name)
            for r in whole:
                grown[r] += new[r] - old[r]
            deserved[name] = new
        left = {r: max(left[r] - grown[r], 0.0) for r in whole}
        if left == before or not any(amount >= 0.1 for r, amount in left.items() if r != "pods"):
            break
        unmet = still
    return Shares(deserved, deserved, real, named={n: set(whole) for n in used})


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
            if world.queue_of(m) == queue and (m.state == "placed" or m.key in later) and m not in before
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
        if {m.key for m in world.jobs[job].of("placed")} <= gone:
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
    held = world.allocated(queue)
    after = total([world.allocated(queue, (m for m in world.members.values() if m.key not in gone)), claim])
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
