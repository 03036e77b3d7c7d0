"""Which plugins and actions there are: name in the configuration → class or function.

Built-in ones are named here and imported when a configuration names them; third parties register a Plugin class under
the entry-point group `muster.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from muster.config.types import Known
from muster.engine.core.hooks import Plugin
from muster.engine.core.session import Session

Action = Callable[[Session], None]

PLUGINS: dict[str, str] = {
    "priority": "muster.plugins.priority:Priority",
    "gang": "muster.plugins.gang:Gang",
    "conformance": "muster.plugins.conformance:Conformance",
    "drf": "muster.plugins.drf:Drf",
    "predicates": "muster.plugins.predicates:Predicates",
    "proportion": "muster.plugins.proportion:Proportion",
    "capacity": "muster.plugins.capacity:Capacity",
    "nodeorder": "muster.plugins.nodeorder:NodeOrder",
    "binpack": "muster.plugins.binpack:Binpack",
    "overcommit": "muster.plugins.overcommit:Overcommit",
    "sla": "muster.plugins.sla:Sla",
    "pdb": "muster.plugins.pdb:Pdb",
    "nodegroup": "muster.plugins.nodegroup:NodeGroup",
    "propagation": "muster.plugins.propagation:Propagation",
    "topology": "muster.plugins.topology:Topology",
    "topology910": "muster.plugins.topology910:Topology910",
    "resource-strategy-fit": "muster.plugins.resource_strategy_fit:ResourceStrategyFit",
}

_ERROR_CACHE = "predicateErrorCacheEnable"
# action → the arguments its `configurations` entry may have
ACTIONS: dict[str, frozenset[str]] = {
    "enqueue": frozenset(),
    "allocate": frozenset({_ERROR_CACHE}),
    "backfill": frozenset({_ERROR_CACHE}),
    "reclaim": frozenset({_ERROR_CACHE}),
    "preempt": frozenset({_ERROR_CACHE, "enableTopologyAwarePreemption"}),
}


def plugin_class(name: str) -> type[Plugin]:
    """The class of a built-in or third-party plugin; KeyError if there is none."""
    target = PLUGINS.get(name)
    if target is None:
        return third_party()[name]
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute)
    assert isinstance(found, type) and issubclass(found, Plugin)
    return found


def action(name: str) -> Action:
    run: Action = import_module(f"muster.actions.{name}").run
    return run


def third_party() -> dict[str, type[Plugin]]:
    """Plugins that other packages registered; a name of ours cannot be taken over."""
    return _registered()[0]


def broken() -> dict[str, str]:
    """Plugins that other packages registered and that cannot be used: name → why."""
    return _registered()[1]


@cache
def _registered() -> tuple[dict[str, type[Plugin]], dict[str, str]]:
    found: dict[str, type[Plugin]] = {}
    unusable: dict[str, str] = {}
    for point in sorted(entry_points(group="muster.plugins"), key=lambda p: p.name):
        if point.name in PLUGINS:
            continue
        try:
            cls = point.load()
        except Exception as fault:  # whatever another package does while it is imported
            unusable[point.name] = f"{point.value} cannot be imported: {type(fault).__name__}: {fault}"
            continue
        if isinstance(cls, type) and issubclass(cls, Plugin):
            found[point.name] = cls
        else:
            unusable[point.name] = f"{point.value} is not a class made from muster.engine.core.hooks.Plugin"
    return found, unusable


def known(names: Iterable[str] | None = None) -> Known:
    """What a configuration may say, for its loader. Only the plugins named are imported, unless all are wanted."""
    wanted = None if names is None else set(names)
    # Looking for other packages' plugins takes time that a configuration of built-in ones need not spend.
    others = third_party() if wanted is None or not wanted <= PLUGINS.keys() else {}
    return Known(
        plugins={
            name: frozenset(plugin_class(name).arguments) if wanted is None or name in wanted else frozenset({"*"})
            for name in (*PLUGINS, *others)
        },
        actions=dict(ACTIONS),
    )
