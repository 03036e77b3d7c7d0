"""The engine with every shortcut taken away: no answer is kept, every pod is placed alone, nothing is ruled out early.

What it decides then is what the rules say; with its shortcuts it must decide the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from muster.actions import allocate, volcano_eviction
from muster.actions.cheapest import Cheapest
from muster.actions.claims import Claims
from muster.actions.making_way import MakingWay
from muster.actions.pool import Pool
from muster.actions.victim_costs import Costs
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.evictions.victims import Victims
from muster.engine.placement.answers import LookAhead
from muster.engine.placement.placement import Placement


@contextmanager
def without_shortcuts() -> Iterator[None]:
    made, place, job_key = Placement.__init__, Placement.place, Session.job_key

    def uncached(self: Placement, session: Session) -> None:
        made(self, session)
        self.caching = False

    def alone(self: Placement, statement: Statement, tasks: Sequence[Task], within: NodeSet | None = None) -> int:
        for done, task in enumerate(tasks):
            if not place(self, statement, [task], within):
                return done
        return len(tasks)

    def fresh(self: Session, job: Any, *, plugins_only: bool = False) -> tuple[object, ...]:
        self._job_keys.clear()
        return job_key(self, job, plugins_only=plugins_only)

    def everywhere(self: Victims) -> Any:
        return np.ones(len(self.session.state.nodes), np.bool_)

    def nobody(self: Victims, queue: str) -> Any:
        return np.zeros(len(self.session.state.nodes), np.bool_)

    def promised(making: MakingWay, statement: Statement, start: int, run: Sequence[Task], within: Any) -> int:
        return making.session.placement.promise(statement, run, within)

    with (
        patch.object(Placement, "__init__", uncached),
        patch.object(Placement, "place", alone),
        patch.object(Placement, "_future_differs", lambda self: True),
        patch.object(LookAhead, "take", lambda self, count, log: []),
        patch.object(LookAhead, "hold", lambda self, picks: None),
        patch.object(allocate, "run_of", lambda session, tasks, at, most: [tasks[at]]),
        patch.object(Session, "job_key", fresh),
        patch.object(Victims, "_promising", everywhere),
        patch.object(Victims, "exhausted", nobody),
        patch.object(Claims, "_kind", lambda self, *of: None),  # every claim is tried
        patch.object(Pool, "gives_at_most", lambda self, *of: {}),  # no bound ends a search early
        patch.object(Cheapest, "_goes_on", lambda self, *of: False),
        patch.object(Costs, "_one_is_enough", lambda self, *of: False),
        patch.object(MakingWay, "_lacks", lambda self, moves: False),
        patch.object(MakingWay, "_promise", promised),
        patch.object(volcano_eviction.Memo, "known", lambda self, session, task: False),
    ):
        yield
