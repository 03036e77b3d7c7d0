"""A cluster whose state is kept from cycle to cycle: it follows the plans, and changes between them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from muster.engine.core.plan import Plan
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Object
from muster.sim.bench.work import Objects, scheduler_of

Changes = list[tuple[str, str, Object | None]]  # kind, key, the new object; None: it is gone


@dataclass
class Cluster:
    """What is there before the first cycle, and what changes before each further one."""

    objects: Objects
    rounds: Iterable[Changes] = ()


class ClusterRun:
    """The clocks, and the cluster as it follows the plans. Of the bound pods those are counted that `measured` names.

    All clocks show CPU seconds of the state and the scheduler, not of creating and changing objects.
    """

    def __init__(self, objects: Objects, config: str, name: str, measured: str | tuple[str, ...] = "") -> None:
        self.objects = objects
        self.bound = 0
        self.evicted = 0
        self.cycles = 0
        self.reading_s = 0.0  # of the state: the objects at the start, then the changes
        self.deciding_s = 0.0  # of the cycles, until everything is decided
        self.cycles_s = 0.0  # of the whole cycles
        self._measured = measured
        self._scheduler = scheduler_of(config, name)
        self._state = State()

    def start(self) -> None:
        start = time.process_time()
        self._state.load(self.objects)
        self.reading_s += time.process_time() - start

    def cycle(self) -> Plan:
        decided = 0.0

        def look(_: Session) -> None:
            nonlocal decided
            decided = time.process_time()

        start = time.process_time()
        plan = self._scheduler.cycle(self._state, float(self.cycles), look=look)
        self.cycles_s += time.process_time() - start
        self.deciding_s += decided - start
        self.cycles += 1
        self.bound += sum(key.startswith(self._measured) for key in plan.binds)
        self.evicted += len(plan.evictions)
        return plan

    def cold_plan(self) -> Plan:
        """Returns what a scheduler decides that reads the objects afresh, at the time of the last cycle."""
        state = State()
        state.load(self.objects)
        return self._scheduler.cycle(state, float(self.cycles - 1))

    def follow(self, plan: Plan, changes: Changes) -> None:
        """Carries a plan out, and applies what happens meanwhile."""
        changes = [*self.carry_out(plan), *changes]
        start = time.process_time()
        for kind, key, one in changes:
            if one is None:
                self._state.remove(kind, key)
            else:
                self._state.upsert(kind, key, one)
        self.reading_s += time.process_time() - start
        apply_changes(self.objects, changes)

    def carry_out(self, plan: Plan) -> Changes:
        """Binds and evicts in the objects, and returns what changed."""
        changes: Changes = [("Pod", eviction.pod, None) for eviction in plan.evictions]
        for key, node in plan.binds.items():
            pod = self.objects["Pod"][key]
            assert isinstance(pod, Pod)
            spec, status = replace(pod.spec, node_name=node), replace(pod.status, phase="Running")
            changes.append(("Pod", key, replace(pod, spec=spec, status=status)))
        apply_changes(self.objects, changes)
        return changes


def apply_changes(objects: Objects, changes: Changes) -> None:
    for kind, key, one in changes:
        if one is None:
            objects[kind].pop(key, None)
        else:
            objects.setdefault(kind, {})[key] = one
