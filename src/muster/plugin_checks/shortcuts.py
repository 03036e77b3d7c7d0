"""Checks that shortcuts (caches, batches, searches that end early) change no decision.

Without them no answer is cached, every pod is placed alone, and no search ends early: what is decided then follows from
the plugins' answers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from muster.actions import allocate, volcano_eviction
from muster.actions.cheapest_victims import CheapestVictims
from muster.actions.claims import Claims
from muster.actions.evicting_placement import EvictingPlacement
from muster.actions.victim_costs import VictimCosts
from muster.actions.victim_pool import VictimPool
from muster.cycle.scheduler import Scheduler
from muster.engine.core import session as session_module
from muster.engine.core.hooks import NodeSet
from muster.engine.core.job_order import JobKeys
from muster.engine.core.jobs import Task
from muster.engine.core.plan import Plan
from muster.engine.core.session import Session
from muster.engine.core.signatures import Signatures
from muster.engine.core.state import State
from muster.engine.core.statement import Statement
from muster.engine.evictions.victims import Victims
from muster.engine.placement import node_classes
from muster.engine.placement.answers import LookAhead
from muster.engine.placement.placement import Placement
from muster.plugin_checks import CheckFailed
from muster.plugin_checks.random_clusters import NOW

__all__ = ["check_restart", "check_shortcuts", "with_shortcuts", "without_shortcuts"]


def check_shortcuts(make: Callable[[], Scheduler], state: Callable[[], State]) -> None:
    """A cycle with shortcuts decides what a cycle without them decides."""
    with with_shortcuts():
        fast = make().cycle(state(), NOW)
    with without_shortcuts():
        slow = make().cycle(state(), NOW)
    advice = (
        "A cached or batched answer was used where a fresh one differs: signature, scope or batch is declared too "
        "narrow, or an order (job_key, task_key) depends on more than its own job or pod"
    )
    _compare("cached", fast, slow, "with caches and batches", "without", advice)


def check_restart(make: Callable[[], Scheduler], state: Callable[[], State]) -> None:
    """A plugin that has been through a cycle decides the next one as a new plugin would."""
    one, other = state(), state()
    used = make()
    used.cycle(one, NOW)
    make().cycle(other, NOW)
    again, fresh = used.cycle(one, NOW), make().cycle(other, NOW)
    advice = "What a plugin remembers of one cycle must not change the next: make its accounts anew in open()"
    _compare("restart", again, fresh, "in a second cycle", "by a plugin made anew", advice)


def _compare(check: str, one: Plan, other: Plan, how: str, else_: str, advice: str) -> None:
    for what in ("binds", "pipelined", "evictions", "phases"):
        left, right = getattr(one, what), getattr(other, what)
        if left != right:
            raise CheckFailed(check, f"{what} are {_shown(left)} {how} and {_shown(right)} {else_}. {advice}")


def _shown(decided: object) -> str:
    return str(dict(sorted(decided.items())) if isinstance(decided, dict) else decided)


@contextmanager
def with_shortcuts() -> Iterator[None]:
    """Forces shortcuts that are used on large clusters only."""
    with patch.multiple(node_classes, MIN_NODES=1, MIN_NODES_PER_CLASS=1):
        yield


@contextmanager
def without_shortcuts() -> Iterator[None]:
    made, place = Placement.__init__, Placement.place

    def uncached(self: Placement, session: Session) -> None:
        made(self, session)
        self.caching = False

    def alone(self: Placement, statement: Statement, tasks: Sequence[Task], within: NodeSet | None = None) -> int:
        for done, task in enumerate(tasks):
            if not place(self, statement, [task], within):
                return done
        return len(tasks)

    def everywhere(self: Victims) -> Any:
        return np.ones(len(self.session.state.nodes), np.bool_)

    def nobody(self: Victims, queue: str) -> Any:
        return np.zeros(len(self.session.state.nodes), np.bool_)

    def promised(
        evicting: EvictingPlacement, statement: Statement, start: int, run: Sequence[Task], within: Any
    ) -> int:
        return evicting.session.placement.promise(statement, run, within)

    with (
        patch.object(Placement, "__init__", uncached),
        patch.object(Placement, "place", alone),
        patch.object(Placement, "_releasing", lambda self, within: True),
        patch.object(LookAhead, "valid", lambda self, *of: False),
        patch.object(allocate, "run_of", lambda session, tasks, at, most: [tasks[at]]),
        patch.object(allocate, "serve_round", lambda *of: False),
        patch.object(Signatures, "_signers_of", lambda self, shape: self._all_signers),  # about every pod
        patch.object(JobKeys, "of", JobKeys._ask),
        patch.object(session_module, "classify_single_jobs", lambda *of: None),
        patch.object(Victims, "_promising", everywhere),
        patch.object(Victims, "exhausted", nobody),
        patch.object(Claims, "_claim_class", lambda self, *of: None),  # every claim is tried
        patch.object(VictimPool, "gives_at_most", lambda self, *of: {}),  # no bound ends a search early
        patch.object(CheapestVictims, "_goes_on", lambda self, *of: False),
        patch.object(VictimCosts, "_one_is_enough", lambda self, *of: False),
        patch.object(EvictingPlacement, "_lacks", lambda self, moves: False),
        patch.object(EvictingPlacement, "_promise", promised),
        patch.object(EvictingPlacement, "_promise_again", lambda self, *of: 0),
        patch.object(volcano_eviction.Memo, "known", lambda self, session, task: False),
    ):
        yield
