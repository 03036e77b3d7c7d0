"""Hypothesis strategies for configurations: any plugins with any arguments, in any tiers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import PLUGINS
from strategies.clusters import GPU

_WEIGHT = st.integers(0, 3)
_TERMS = (
    "leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration",
    "imagelocality", "podtopologyspread",
)  # fmt: skip
_TYPE = st.sampled_from(["MostAllocated", "LeastAllocated"])
_ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "nodeorder": st.fixed_dictionaries(
        {},
        optional={f"{term}.weight": _WEIGHT for term in _TERMS},
    ),
    "binpack": st.fixed_dictionaries(
        {"binpack.weight": _WEIGHT},
        optional={
            "binpack.cpu": _WEIGHT,
            "binpack.memory": _WEIGHT,
            "binpack.resources": st.just(GPU),
            f"binpack.resources.{GPU}": _WEIGHT,
        },
    ),
    "nodegroup": st.sampled_from([{}, {"strict": False}, {"enablePreferredOrder": True}]),
    "topology910": st.sampled_from([{}, {"topology910.eachPod": True}]),
    "resource-strategy-fit": st.fixed_dictionaries(
        {},
        optional={
            "resources": st.fixed_dictionaries(
                {"cpu": st.fixed_dictionaries({"type": _TYPE, "weight": st.integers(1, 3)})},
                optional={"nvidia.com/*": st.fixed_dictionaries({"type": _TYPE, "weight": st.integers(1, 3)})},
            ),
            "sra": st.just({"policy": "retention, proportional", "resources": GPU, "retention": {"weight": 2}}),
        },
    ),
    "sla": st.sampled_from([{}, {"sla-waiting-time": "30s"}]),
    "overcommit": st.sampled_from([{}, {"overcommit-factor": 1.0}]),
}
_HIERARCHIES = ("drf", "capacity", "nodegroup")
EVERY_PLUGIN = tuple(PLUGINS)
EVICTING = (("preempt",), ("reclaim",), ("reclaim", "allocate", "preempt", "backfill"))
ACTIONS = (
    ("allocate",),
    ("enqueue", "allocate", "backfill"),
    ("enqueue", "allocate", "backfill"),
    ("allocate", "preempt"),
    ("enqueue", "reclaim", "allocate", "preempt", "backfill"),
    ("reclaim",),
    ("preempt", "allocate"),
)


@st.composite
def configurations(
    draw: st.DrawFn,
    plugins: tuple[str, ...] = EVERY_PLUGIN,
    first: tuple[str, ...] = (),
    actions: tuple[tuple[str, ...], ...] = ACTIONS,
    simple: bool = False,
    compatibility: str = "",
) -> Config:
    """Any of the plugins, each with any of its arguments, in any order over up to three tiers after `first`.

    `simple`: no hierarchies, plain preemption, and scores that see the cycle's moves.
    """
    plugins = tuple(p for p in plugins if p not in first)
    left_out = draw(st.sets(st.sampled_from(plugins or ("",)), max_size=5))
    left_out |= draw(st.sampled_from([{"capacity"}, {"proportion"}, {"proportion", "capacity"}, set()]))
    if simple:
        left_out -= {"predicates"}  # Volcano: without it nodeorder scores the cycle's beginning
    order = draw(st.permutations([p for p in plugins if p not in left_out]))
    options = []
    for name in order:
        switches = {"enableHierarchy": True} if not simple and name in _HIERARCHIES and draw(st.booleans()) else {}
        given = draw(_ARGUMENTS.get(name, st.just({})))
        options.append(PluginOption(name, switches, Arguments(given, owner=name, file="scheduler.yaml")))
    cuts = sorted(draw(st.lists(st.integers(0, len(options)), max_size=2)))
    edges = [0, *cuts, len(options)]
    tiers = (Tier(tuple(map(PluginOption, first))), *(Tier(tuple(options[a:b])) for a, b in pairwise(edges)))
    config = Config(draw(st.sampled_from(actions)), tiers, compatibility=compatibility)
    if simple or draw(st.booleans()):
        return config
    by_node = Arguments({"enableTopologyAwarePreemption": True}, owner="preempt", file="scheduler.yaml")
    return replace(config, configurations={"preempt": by_node})
