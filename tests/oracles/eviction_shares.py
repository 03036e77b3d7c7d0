"""What queues deserve and may hold at most, computed from the objects alone (spec volcano.md §4).

Shares of proportion are not always whole numbers. `at_most` is exact on whole numbers, and has a margin elsewhere
that is on the cautious side of whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.model.requests import amounts
from muster.model.scheduling import Queue
from oracles.eviction_model import Amounts, World, total

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
    """Exact where the limit is a whole number."""
    if float(limit).is_integer():
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
        n: total(m.request for m in world.members.values() if m.state in ("held", "waiting") and world.queue_of(m) == n)
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
