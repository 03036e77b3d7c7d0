"""Carries out a plan on the store: bindings with their effects, evictions, what pods and groups are told."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.cluster.volumes import settle_claim
from muster.cycle import telling
from muster.engine.core.hooks import Effect
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.podgroups import GROUP
from muster.model.core import Pod
from muster.model.pod_states import is_terminating
from muster.model.scheduling import PodGroup
from muster.store import ApiError, Severity


@dataclass(slots=True)
class Outcome:
    """What became of a plan: pods bound and evicted, and what failed with its reason."""

    bound: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class Planned:
    """Plans made deeds, one after the other."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._count = 0

    def carry_out(self, plan: Plan) -> Outcome:
        self._count += 1
        outcome = Outcome()
        for eviction in plan.evictions:
            self._evict(eviction, outcome)
        for key, node in plan.binds.items():
            self._bind(key, node, plan.effects.get(key, ()), outcome)
        self._tell_pods(plan)
        self._tell_groups(plan)
        return outcome

    def _bind(self, key: str, node: str, effects: list[Effect] | tuple[()], outcome: Outcome) -> None:
        store = self._store
        annotations: dict[str, str] = {}
        try:
            for effect in effects:
                if effect.kind == "annotations":
                    annotations.update(effect.values)
                elif effect.kind == "claim":
                    settle_claim(store, effect.key, effect.values.get("volumeName", ""), node)
            pod = store.bind(key, node, annotations)
        except ApiError as error:
            outcome.failed[key] = str(error)
            waiting = store.of(Pod).get(key)
            if waiting is not None:
                store.event(waiting, Severity.WARNING, telling.FAILED_BINDING, str(error))
            return
        outcome.bound[key] = node
        store.event(pod, Severity.NORMAL, telling.SCHEDULED, telling.assigned(key, node))

    def _evict(self, eviction: Eviction, outcome: Outcome) -> None:
        store, key = self._store, eviction.pod
        pod = store.of(Pod).get(key)
        if pod is None or is_terminating(pod):
            outcome.failed[key] = "is gone or on its way out already"
            return
        store.evict(key, by=telling.claimer_shown(eviction), rule=eviction.rule)
        outcome.evicted.append(key)
        message = telling.eviction_text(eviction)
        store.event(pod, Severity.WARNING, telling.EVICTED, message)
        group = store.of(PodGroup).get(f"{pod.metadata.namespace}/{pod.metadata.annotations.get(GROUP, '')}")
        if group is not None:
            store.event(group, Severity.NORMAL, telling.EVICTED, f"pod {key} {message}")

    def _tell_pods(self, plan: Plan) -> None:
        """Why each pod that waits has no node; where it will go if room was made for it."""
        store, now = self._store, self._store.clock.now()
        table = store.of(Pod)
        for key, reason in plan.reasons.items():
            pod = table.get(key)
            if pod is None or pod.spec.node_name or pod.spec.scheduling_gates or is_terminating(pod):
                continue
            nominated = telling.nomination(plan, key)
            told = telling.unschedulable(pod, reason.text, nominated, now)
            if told is not pod:
                store.event(store.write(told), Severity.WARNING, telling.FAILED, reason.text)

    def _tell_groups(self, plan: Plan) -> None:
        table = self._store.of(PodGroup)
        for key in dict.fromkeys((*plan.phases, *plan.conditions)):
            group = table.get(key)
            if group is None:
                continue  # a group in memory: nobody else reads it
            said = plan.conditions.get(key)
            now = self._store.clock.now()
            status, news = telling.group_status(group, plan.phases.get(key), said, str(self._count), now)
            if status != group.status:
                group = self._store.write(replace(group, status=status))
            if said is not None and news:
                severity = Severity.WARNING if said.type == "Unschedulable" else Severity.NORMAL
                self._store.event(group, severity, said.type, said.message)
