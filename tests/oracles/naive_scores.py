"""The scores of the plain reading: nodeorder's resource terms and binpack, one pod on one node."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oracles.naive import HELD, Task, World, total

GPU = "nvidia.com/gpu"


def score(world: World, task: Task, node: str) -> float:
    found = 0.0
    for plugin in world.plugins():
        if plugin == "nodeorder":
            found += _nodeorder(world, task, node)
        elif plugin == "binpack":
            found += _binpack(world, task, node)
    return found


def _nodeorder(world: World, task: Task, node: str) -> float:
    there, offered = world.load(node), world.offered[node]
    full = [sum(t.nonzero[i] for t in there) + task.nonzero[i] for i in (0, 1)]
    size = [offered["cpu"], offered["memory"]]
    least = sum(max(math.floor(100 * (s - f) / s), 0) for f, s in zip(full, size, strict=True)) // 2
    most = sum(min(math.floor(100 * f / s), 100) for f, s in zip(full, size, strict=True)) // 2
    even = 0
    names = ["cpu", "memory"] + ([GPU] if task.request.get(GPU) else [])
    if any(task.request.get(name) for name in names):
        names = [name for name in names if offered.get(name)]
        held = total(t.request for t in there)
        before = [min(held.get(n, 0) / offered[n], 1.0) for n in names]
        after = [min((held.get(n, 0) + task.request.get(n, 0)) / offered[n], 1.0) for n in names]
        even = math.floor((_evenness(after) - _evenness(before) + 150) / 2)
    weight = world.argument
    return (
        least * weight("nodeorder", "leastrequested.weight", 1)
        + most * weight("nodeorder", "mostrequested.weight", 0)
        + even * weight("nodeorder", "balancedresource.weight", 1)
    )


def _binpack(world: World, task: Task, node: str) -> float:
    option = world.config.plugin("binpack")
    assert option is not None
    weights = {name: world.argument("binpack", f"binpack.{name}", 1) for name in ("cpu", "memory")}
    for name in option.arguments.strings("binpack.resources"):
        weights[name] = world.argument("binpack", f"binpack.resources.{name}", 1)
    weights = {name: w for name, w in weights.items() if task.request.get(name)}
    used = total(t.request for t in world.on(node) if t.status in (*HELD, "Releasing"))
    found = 0.0
    for name, w in weights.items():
        offers, use = world.offered[node].get(name, 0), used.get(name, 0) + task.request[name]
        if offers and w:
            if use > offers:
                return 0.0
            found += use * w / offers
    if not sum(weights.values()):
        return 0.0
    return found / sum(weights.values()) * (100.0 * world.argument("binpack", "binpack.weight", 1))


def _evenness(shares: Sequence[float]) -> int:
    if len(shares) < 2:
        return 100
    if len(shares) == 2:
        return math.floor((1 - abs((shares[0] - shares[1]) / 2)) * 100)
    mean = sum(shares) / len(shares)
    return math.floor((1 - math.sqrt(sum((s - mean) ** 2 for s in shares) / len(shares))) * 100)
