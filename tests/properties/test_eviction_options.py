"""The options that explain shows are those of the run: what is evicted for a pod is its first option, and a pod for
which nobody is evicted has no possible option, or its text says why not. Watching changes no decision.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.actions.claims import Claims
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Job, Status
from muster.engine.core.nodes import MoveKind
from muster.engine.core.plan import Plan
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.placement.turns import Turns
from muster.sim.eviction_options import ClaimWatch
from muster.sim.simulate import simulate
from oracles.eviction_runner import START, tables_of
from strategies.eviction_clusters import scenario
from strategies.profiles import times

RUNS, BATCH, CYCLES = times(200), 20, 6
NAMES = ("volcano", "muster")


class Watching(Scheduler):
    """Watches every claim of a run for one of its pods, and for each of its victims."""

    checked: list[str]
    last: dict[str, ClaimWatch]  # pending pod → the watch of its last claim in this cycle

    def session(self, *args: Any, **more: Any) -> Session:
        live = super().session(*args, **more)
        live.turns = Turns(lambda task: False, claims=self)
        self.last.clear()
        return live

    def cycle(self, *args: Any, **more: Any) -> Plan:
        return super().cycle(*args, look=self.end, **more)

    def end(self, session: Session) -> None:
        for pod, watch in self.last.items():
            task = session.state.tasks[pod]
            if task.status == Status.PENDING:
                watch.end(session)
                for option in watch.options:
                    explained = "did not find it" in option.text or "comes before" in option.text
                    assert not option.possible or explained, (pod, option)
                self.checked.append("no claim")

    def claimed(self, claims: Claims, job: Job, statement: Statement | None) -> None:
        before = claims.session.state.nodes.rows.copy()
        if statement is None:
            pending = [task for task in claims.session.in_order(job.tasks.values()) if task.status == Status.PENDING]
            if pending:
                self.last[pending[0].key] = watch = ClaimWatch(pending[0].key)
                watch.claimed(claims, job, None)
        elif victims := [move for move in statement.moves if move.kind == MoveKind.EVICT]:
            self._solved(claims, job, statement, victims)
        assert (claims.session.state.nodes.rows == before).all()

    def _solved(self, claims: Claims, job: Job, statement: Statement, victims: list[Any]) -> None:
        moves = list(statement.moves)
        served = next(move.task for move in moves if move.kind == MoveKind.PIPELINE)
        watch = ClaimWatch(served.key)
        watch.claimed(claims, job, statement)
        first = watch.options[0]
        assert first.possible and first.action == claims.rule
        assert sorted(victim.pod for victim in first.victims) == sorted(move.task.key for move in victims)
        watch = ClaimWatch(victims[-1].task.key)
        watch.claimed(claims, job, statement)
        assert watch.evicted is not None and watch.evicted.why
        assert watch.evicted.by == victims[-1].by.key and watch.evicted.action == claims.rule
        assert all(a is b for a, b in zip(moves, statement.moves, strict=True))
        self.checked.append("claim")


@pytest.mark.parametrize("first", range(0, RUNS, BATCH))
def test_options_are_those_of_the_run(first: int) -> None:
    checked: list[str] = []
    for seed in range(first, min(first + BATCH, RUNS)):
        made = scenario(seed)
        config, _ = configure(yaml.safe_dump(made.config), "scheduler.yaml")
        watching = Watching(config)
        watching.checked, watching.last = checked, {}
        watched = simulate(watching, tables_of(made), START, NAMES, CYCLES)
        plain = simulate(Scheduler(config), tables_of(made), START, NAMES, CYCLES)
        assert watched.decisions() == plain.decisions(), seed
    assert {"claim", "no claim"} <= set(checked)
