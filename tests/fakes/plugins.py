"""Stub plugins whose answers a test states, and sessions over tiers of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.hooks import Bools, Floats, Hook, Ledger, NodeFilter, NodeScorer, Plugin, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.core.statement import Move

ALL_ACTIONS = ("enqueue", "allocate", "backfill", "reclaim", "preempt")


def stub(name: str, *hooks: type[Hook], switches: dict[str, bool] | None = None, **answers: Any) -> Plugin:
    """A plugin with these hooks; each keyword is a method, given as a function of its arguments or as its answer."""
    unknown = [key for key in answers if not any(hasattr(base, key) for base in (Plugin, *hooks))]
    assert not unknown, f"no such methods: {unknown}"
    methods = {key: _method(answer) for key, answer in answers.items()}
    kind: type[Plugin] = type(name, (Plugin, *hooks), {"name": name, **methods})
    return kind(Arguments({}), PluginOption(name, switches or {}))


def _method(answer: Any) -> Callable[..., Any]:
    return lambda _, *given: answer(*given) if callable(answer) else answer


def real(name: str, **switches: bool) -> Plugin:
    """A plugin of muster with default arguments."""
    option = PluginOption(name, switches, Arguments({}, owner=name))
    return plugin_class(name)(option.arguments, option)


def session_of(
    state: State,
    *tiers: Plugin | Sequence[Plugin],
    actions: Sequence[str] = ALL_ACTIONS,
    compatibility: str = "",
    configurations: dict[str, Arguments] | None = None,
    now: float = 0.0,
) -> Session:
    """A session over these tiers; a plugin alone is a tier of one."""
    listed = [[tier] if isinstance(tier, Plugin) else list(tier) for tier in tiers]
    options = tuple(Tier(tuple(plugin.option for plugin in tier)) for tier in listed)
    config = Config(tuple(actions), options, configurations or {}, compatibility)
    return Session(state, config, listed, now)


class Score(Plugin, NodeScorer):
    """Scores nodes by a function of the node's idle cpu in cores, or by fixed numbers per node."""

    name = "score"

    def __init__(self, points: Callable[[Floats], Floats] | Sequence[float]) -> None:
        super().__init__(Arguments({}), PluginOption(self.name))
        self.points = points

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        if callable(self.points):
            return self.points(nodes.idle[nodes.nodes.axis.rows["cpu"]] / 1000)
        return np.array(self.points, np.float64)[nodes.index]


class ShareOfBest(Score):
    """The same points, normalised: what the best candidate has becomes 100, the worst 0."""

    name = "share-of-best"
    normalised = True
    scope = Scope.STATIC

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        inside = raw[candidates]
        return 100.0 * (raw - inside.min()) / (inside.max() - inside.min())


class Refuse(Plugin, NodeFilter):
    """Refuses some nodes, by index, for one reason."""

    name = "refuse"

    def __init__(self, *nodes: int, resolvable: bool = True, scope: Scope = Scope.NODE) -> None:
        super().__init__(Arguments({}), PluginOption(self.name))
        self.refused = list(nodes)
        self.reason = Reason("refused", "refused by the test", resolvable)
        self.scope = scope  # type: ignore[misc]

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return Verdict.of(np.isin(nodes.index, self.refused), self.reason)


class Journal(Plugin, Ledger):
    """Records every move that it is notified of."""

    name = "journal"

    def __init__(self) -> None:
        super().__init__(Arguments({}), PluginOption(self.name))
        self.entries: list[tuple[str, str, list[str]]] = []

    def allocated(self, move: Move) -> None:
        self.entries.append(("allocated", move.kind.name, [task.name for task in move.tasks]))

    def released(self, move: Move) -> None:
        self.entries.append(("released", move.kind.name, [task.name for task in move.tasks]))
