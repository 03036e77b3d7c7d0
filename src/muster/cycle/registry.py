"""The registry of plugins and actions: name in the configuration → class or function.

Built-in plugins are listed here and imported when a configuration names them. Third parties register a Plugin class
under the entry-point group `muster.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from muster.config.types import Config, Known
from muster.cycle.host import hosted
from muster.engine.core import hooks
from muster.engine.core.hooks import Hook, Plugin
from muster.engine.core.session import Session
from muster.model.custom import CustomApplication, CustomResource
from muster.model.kinds import KINDS
from muster.model.meta import Object, kind_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Action = Callable[[Session], None]
GROUP = "muster.plugins"  # the entry-point group

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
    "gpu-share": "muster.plugins.gpu_share:GpuShare",
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
    """Returns the class of a built-in or third-party plugin; raises KeyError if there is none."""
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
    """Returns the plugins that other packages registered. They cannot replace a built-in plugin."""
    return _registered()[0]


def broken() -> dict[str, str]:
    """Returns the registered plugins of other packages that cannot be used: name → why."""
    return _registered()[1]


def package_of(name: str) -> str:
    """Returns the distribution package that provides a plugin, with its version."""
    if name in PLUGINS:
        return "muster"
    return ", ".join(dict.fromkeys(_package(point) for point in _entry_points() if point.name == name))


def kinds_read(config: Config) -> tuple[type[Object], ...]:
    """Returns the kinds that the configured plugins declare to read, each once."""
    classes = (plugin_class(option.name) for option in config.plugins())
    return tuple(dict.fromkeys(kind for cls in classes for kind in cls.reads))


def third_party_kinds() -> dict[tuple[str, str], type[CustomResource]]:
    """Returns the custom resources that plugins of other packages read, by apiVersion and kind."""
    kinds = (kind for cls in third_party().values() for kind in cls.reads if issubclass(kind, CustomResource))
    return {(f"{kind.group}/{kind.version}", kind_name(kind)): kind for kind in kinds if kind.group}


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # its import takes as long as ten modules of muster

    return entry_points(group=GROUP)


@cache
def _registered() -> tuple[dict[str, type[Plugin]], dict[str, str]]:
    found: dict[str, type[Plugin]] = {}
    unusable: dict[str, str] = {}
    by_name: dict[str, list[EntryPoint]] = {}
    for point in _entry_points():
        by_name.setdefault(point.name, []).append(point)
    for name, points in sorted(by_name.items()):
        packages = " and ".join(sorted({_package(point) for point in points}))
        if name in PLUGINS:
            unusable[name] = f"package {packages} registers a plugin with the name of a built-in one, which is used"
        elif len({(point.value, _package(point)) for point in points}) > 1:
            unusable[name] = f"several packages register a plugin with this name: {packages}"
        else:
            try:
                found[name] = hosted(_usable(points[0]), packages)
            except _Unusable as why:
                unusable[name] = f"{points[0].value} of package {packages} {why}"
    return found, unusable


class _Unusable(Exception):
    """Raised if an entry point does not name a usable plugin; the message has the reason."""


def _usable(point: EntryPoint) -> type[Plugin]:
    try:
        cls = point.load()
    except Exception as fault:  # the import of another package may raise anything
        raise _Unusable(f"cannot be imported: {type(fault).__name__}: {fault}") from None
    if not isinstance(cls, type) or not issubclass(cls, Plugin):
        raise _Unusable("is not a class derived from muster.plugin.Plugin")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise _Unusable(f"is abstract: it does not implement {', '.join(missing)}")
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name:
        raise _Unusable(f'has no name: write name = "{point.name}" in the class')
    if name != point.name:
        raise _Unusable(f"is named {name} but registered as {point.name}: give both the same name")
    for kind in cls.reads:
        wrong = _unreadable(kind)
        if wrong:
            raise _Unusable(f"reads {getattr(kind, '__name__', kind)}, which {wrong}")
    return cls


def _unreadable(kind: object) -> str:
    """Returns why objects of this kind cannot be watched; empty if they can."""
    if not isinstance(kind, type) or not issubclass(kind, Object):
        return "is not a Kubernetes kind: derive it from muster.plugin.CustomResource"
    if issubclass(kind, CustomResource) and kind is not CustomApplication and not (kind.version and kind.plural):
        return "does not declare where it is served: give it group, version and plural"
    if not issubclass(kind, CustomResource) and kind not in KINDS.values():
        return "muster cannot watch: derive it from muster.plugin.CustomResource"
    return ""


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "of an unknown name"


def known(names: Iterable[str] | None = None) -> Known:
    """Returns the names that a configuration may use. Only the named plugins are imported, unless all are wanted."""
    wanted = None if names is None else set(names)
    # Finding the plugins of other packages takes time, which a configuration with only built-in plugins does not need.
    others = third_party() if wanted is None or not wanted <= PLUGINS.keys() else {}
    return Known(
        plugins={
            name: frozenset(plugin_class(name).arguments) if wanted is None or name in wanted else frozenset({"*"})
            for name in (*PLUGINS, *others)
        },
        actions=dict(ACTIONS),
    )


def extension_points() -> dict[str, type[Hook]]:
    """Returns every extension point, in the order of the interface.

    A hook without abstract methods is none: it only collects what others share.
    """
    return {
        name: kind for name, kind in vars(hooks).items()
        if isinstance(kind, type) and issubclass(kind, Hook) and bool(getattr(kind, "__abstractmethods__", False))
    }  # fmt: skip
