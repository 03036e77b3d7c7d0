"""The status patches of native groups (scheduling.k8s.io) after a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.cycle import native_status
from muster.cycle.native_status import Decided, NativeGroup
from muster.engine.core.native_groups import GROUPS, NATIVE_KINDS, group_of
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.native import CompositePodGroup, NativePodGroup


@dataclass(frozen=True, slots=True)
class NativeStatusPatch:
    """The conditions of a native PodGroup or CompositePodGroup."""

    object: NativeGroup
    key: str
    status: dict[str, Any]


class NativeConditions:
    """Computes the conditions of native groups: whether they are scheduled, and whether they lost pods."""

    def __init__(self) -> None:
        self._disrupted: dict[str, tuple[str, str]] = {}  # PodGroup → its uid, why it lost pods; until it is written

    def patches(self, plan: Plan, state: State, now: float) -> Iterator[NativeStatusPatch]:
        if not any(state.objects.get(kind) for kind in NATIVE_KINDS):
            return
        self._note_victims(plan, state)
        found: dict[tuple[str, str], Decided | None] = {(GROUPS, key): None for key in self._disrupted}
        for job in state.jobs.values():
            if job.native and job.tasks:
                found.update(((one.kind, one.key), one) for one in native_status.decided(plan, job))
        for (kind, key), verdict in found.items():
            group = state.objects[kind].get(key)
            if isinstance(group, NativePodGroup | CompositePodGroup):
                conditions = self._conditions(group, key, verdict, now)
                if conditions is not group.status.conditions:
                    yield NativeStatusPatch(group, key, {"conditions": msgspec.to_builtins(conditions)})

    def _note_victims(self, plan: Plan, state: State) -> None:
        for eviction in plan.evictions:
            victim = state.tasks.get(eviction.pod)
            name = group_of(victim.pod) if victim is not None else ""
            if (lost := state.objects[GROUPS].get(name)) is not None:
                text = f"{eviction.pod} is evicted ({eviction.rule}) for {eviction.by or 'its own group'}"
                self._disrupted.setdefault(name, (lost.metadata.uid, text))

    def _conditions(self, group: NativeGroup, key: str, verdict: Decided | None, now: float) -> list[Any]:
        conditions = group.status.conditions
        if isinstance(group, NativePodGroup) and key in self._disrupted:
            uid, text = self._disrupted[key]
            changed = native_status.disrupted(group, text, now) if group.metadata.uid == uid else conditions
            if changed is conditions:
                del self._disrupted[key]  # it is written, or the group is another one
            else:
                group, conditions = replace(group, status=replace(group.status, conditions=changed)), changed
        return conditions if verdict is None else native_status.conditions(group, verdict, now)
