"""Tests for plugins: `check_plugin` finds the mistakes that would misplace pods without any message.

    from muster.testing import check_plugin

    def test_my_plugin():
        check_plugin(MyPlugin, {"weight": 2})

It needs neither pytest nor hypothesis. The random clusters depend on the seed alone, so a failure can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.host import hosted
from muster.cycle.registry import PLUGINS
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Plugin
from muster.engine.core.state import State
from muster.model.meta import Object
from muster.plugin_checks import CheckFailed, ledgers, shortcuts, terms
from muster.plugin_checks.choices import SeededChoices
from muster.plugin_checks.random_clusters import NOW, cluster, state_of
from muster.plugin_checks.read_keys import ReadKey, read_keys, set_keys

__all__ = ["CheckFailed", "check_plugin"]

Change = Callable[[random.Random, list[Object]], None]

_FIRST = ("priority", "gang", "conformance")
_OTHERS = ("predicates", "nodeorder", "proportion", "drf", "binpack", "overcommit")
_ACTIONS = (
    ("allocate",),
    ("enqueue", "allocate", "backfill"),
    ("allocate", "preempt"),
    ("enqueue", "reclaim", "allocate", "preempt", "backfill"),
)
_LEARNING_CLUSTERS = 4


def check_plugin(
    plugin: type[Plugin], arguments: Mapping[str, object] | None = None, *, change: Change | None = None,
    clusters: int = 30, seed: int = 0,
) -> None:  # fmt: skip
    """Checks a plugin class on random clusters, beside random other plugins; raises CheckFailed (an AssertionError).

    - `slice`: an answer for some nodes is that part of the answer for all nodes.
    - `scope`: after placements, filters and scores change no further than their declared scope reaches.
    - `batch`: answers for a run of equal pods are those of placing one pod after the other.
    - `signature`: pods of one signature get the same answers.
    - `skip`: where `batch` returns SKIP, the filter or score makes no difference.
    - `ledger`: `released` is the exact inverse of `allocated`.
    - `cached`: a cycle with the engine's caches and batches decides what a cycle without them decides.
    - `restart`: a plugin decides its second cycle as a new one would.

    The clusters have the labels and annotations that the plugin is seen to read, with random values and those that it
    compares them with. `change` may change the objects of a cluster before it is used: add objects of the kinds that
    the plugin reads, or values that it understands. Errors and answers of a wrong type are raised as PluginError, as
    the scheduler would report them.
    """
    case = _Case(hosted(plugin), dict(arguments or {}), change)
    if not case.name:
        raise CheckFailed("name", f"the plugin class {plugin.__name__} has no name")
    if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
        raise CheckFailed("abstract", f"the plugin {case.name} does not implement {', '.join(missing)}")
    for number in range(clusters):
        if number < _LEARNING_CLUSTERS:
            case.learn(seed, number)
        with _located(case.name, seed, number):
            case.run(seed, number)


class _Case:
    """A plugin that is checked, and what is known of it."""

    def __init__(self, plugin: type[Plugin], arguments: dict[str, object], change: Change | None) -> None:
        self.name = str(getattr(plugin, "name", "") or "")
        self._class = plugin
        self._arguments = arguments
        self._change = change
        self._keys: dict[ReadKey, set[str]] = {}  # labels and annotations that the plugin reads, and compares with

    def learn(self, seed: int, number: int) -> None:
        """Finds out which labels and annotations the plugin reads, and which values it knows."""
        choices = SeededChoices(_seed_of(seed, number))
        config = self._config(choices)
        without = replace(config, tiers=tuple(_without(tier, self.name) for tier in config.tiers))
        found = []
        for one in (config, without):

            def work(objects: Sequence[Object], config: Config = one) -> None:
                session = self._scheduler(config).session(state_of(objects), NOW)
                ledgers.all_answers(session)
                session.close()

            found.append(read_keys(lambda: self._objects(SeededChoices(number), number), work))
        for key in found[0].keys() - found[1].keys():
            self._keys.setdefault(key, set()).update(found[0][key])

    def run(self, seed: int, number: int) -> None:
        """All checks, on one cluster."""
        choices = SeededChoices(_seed_of(seed, number))
        config = self._config(choices)
        drawn = choices.random.getrandbits(32)

        def state() -> State:
            return state_of(self._objects(SeededChoices(drawn), number))

        for check in (
            terms.check_slices, terms.check_single_columns, terms.check_signatures, terms.check_skips,
            terms.check_scopes, terms.check_copies,
        ):  # fmt: skip
            check(self._scheduler(config).session(state(), NOW), choices, self.name)
        ledgers.check_ledgers(self._scheduler(config), state(), choices)
        shortcuts.check_shortcuts(lambda: self._scheduler(config), state)
        shortcuts.check_restart(lambda: self._scheduler(config), state)

    def _objects(self, choices: SeededChoices, number: int) -> list[Object]:
        objects = list(cluster(choices, crowded=number % 3 == 2))
        set_keys(objects, self._keys, choices)
        if self._change is not None:
            self._change(choices.random, objects)
        return objects

    def _config(self, choices: SeededChoices) -> Config:
        """The plugin with some of the others, in any order, over two tiers."""
        mine = PluginOption(self.name, {}, Arguments(self._arguments, owner=self.name, file="scheduler.yaml"))
        rest = [PluginOption(name) for name in choices.subset(_OTHERS) if name != self.name]
        rest.insert(choices.integer(0, len(rest)), mine)
        first = Tier(tuple(PluginOption(name) for name in _FIRST if name != self.name))
        return Config(choices.one_of(_ACTIONS), (first, Tier(tuple(rest))))

    def _scheduler(self, config: Config) -> Scheduler:
        return Scheduler(config, classes={} if self.name in PLUGINS else {self.name: self._class})


def _without(tier: Tier, name: str) -> Tier:
    return Tier(tuple(option for option in tier.plugins if option.name != name))


def _seed_of(seed: int, number: int) -> int:
    return seed * 1_000_003 + number


@contextmanager
def _located(plugin: str, seed: int, number: int) -> Iterator[None]:
    """Adds to a failure where it was found."""
    try:
        yield
    except CheckFailed as failure:
        where = f"plugin {plugin}, random cluster {number} of seed {seed}"
        raise CheckFailed(failure.check, f"{failure.message}\n({where})") from None
