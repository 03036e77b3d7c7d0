"""Random configurations with evictions: every order of the actions, Volcano's usual tiers and others."""

from __future__ import annotations

from random import Random
from typing import Any

ACTIONS = ("allocate", "preempt", "reclaim", "backfill")


def configuration(rng: Random) -> dict[str, Any]:
    return {"actions": ", ".join(_actions(rng)), "tiers": [{"plugins": tier} for tier in _tiers(rng)]}


def _actions(rng: Random) -> list[str]:
    names = list(ACTIONS)
    left_out = rng.choice(["", "", "", "preempt", "reclaim", "backfill"])
    names = [name for name in names if name != left_out]
    if rng.random() < 0.6:
        rng.shuffle(names)
    if rng.random() < 0.7:
        names.insert(0 if rng.random() < 0.85 else rng.randint(0, len(names)), "enqueue")
    return names


def _plugin(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def _tiers(rng: Random) -> list[list[dict[str, Any]]]:
    kind = rng.choice(["proportion", "proportion", "capacity", "hierarchy"])
    if kind == "hierarchy":
        queues = _plugin("capacity", enableHierarchy=True)
    else:
        queues = _plugin(kind)
    first = [_plugin("priority"), _plugin("gang"), _plugin("conformance")]
    if rng.random() < 0.08:
        rng.choice([*first, queues])[rng.choice(["enablePreemptable", "enableReclaimable"])] = False
    second = [_plugin("predicates"), queues, _plugin(rng.choice(["nodeorder", "binpack"]))]
    way = rng.choice(["usual", "usual", "single", "counting", "drf-first"])
    if way == "usual":
        second.insert(0, _plugin("drf"))
    if rng.random() < 0.4:
        second.insert(0, _plugin("overcommit", **_factor(rng)))
    if rng.random() < 0.2:
        rng.choice([first, second]).append(_plugin("pdb"))
    if rng.random() < 0.5:
        second.append(_plugin("topology"))
    if rng.random() < 0.25:
        second.append(_plugin("nodegroup"))
    if way == "single":
        return [first + second]
    if way == "counting":  # the plugin that counts queues in the tier of the protections
        second.remove(queues)
        return [[*first, queues], second]
    if way == "drf-first":
        first.append(_plugin("drf"))
    return [first, second]


def _factor(rng: Random) -> dict[str, Any]:
    return rng.choice([{}, {"arguments": {"overcommit-factor": 1.0}}])
