"""Carries out a plan on the store: bindings with their effects, evictions, what pods and groups are told."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.cluster import pods
from muster.cluster.memory import MemoryStore
from muster.cluster.volumes import settle_claim
from muster.engine.hooks import Effect
from muster.engine.plan import Condition as GroupCondition
from muster.engine.plan import Eviction, Plan
from muster.engine.reading import GROUP
from muster.model.core import Pod
from muster.model.meta import Condition
from muster.model.scheduling import PodGroup
from muster.store import Severity, StoreError
from muster.store.clock import timestamp


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
        except StoreError as error:
            outcome.failed[key] = str(error)
            waiting = store.of(Pod).get(key)
            if waiting is not None:
                store.event(waiting, Severity.WARNING, "FailedBinding", str(error))
            return
        outcome.bound[key] = node
        store.event(pod, Severity.NORMAL, "Scheduled", f"Successfully assigned {key} to {node}")

    def _evict(self, eviction: Eviction, outcome: Outcome) -> None:
        store, key = self._store, eviction.pod
        pod = store.of(Pod).get(key)
        if pod is None or pods.leaving(pod):
            outcome.failed[key] = "is gone or on its way out already"
            return
        # Whoever may read the victim need not know of other namespaces' pods.
        near = eviction.by.partition("/")[0] == pod.metadata.namespace
        by = eviction.by if near else "a pod of another namespace"
        store.evict(key, by=by, rule=eviction.rule)
        outcome.evicted.append(key)
        message = f"evicted by {eviction.rule} to make room for {by}"
        store.event(pod, Severity.WARNING, "Evict", message)
        group = store.of(PodGroup).get(f"{pod.metadata.namespace}/{pod.metadata.annotations.get(GROUP, '')}")
        if group is not None:
            store.event(group, Severity.NORMAL, "Evict", f"pod {key} {message}")

    def _tell_pods(self, plan: Plan) -> None:
        """Why each pod that waits has no node; where it will go if room was made for it."""
        store, now = self._store, self._store.clock.now()
        table = store.of(Pod)
        claimers = {eviction.by for eviction in plan.evictions}
        for key, reason in plan.reasons.items():
            pod = table.get(key)
            if pod is None or pod.spec.node_name or pod.spec.scheduling_gates or pods.leaving(pod):
                continue
            node = plan.pipelined.get(key, "")
            nominated = node if key in claimers or pod.status.nominated_node_name == node else ""
            told = pods.unschedulable(pod, reason.text, nominated, now)
            if told is not pod:
                store.event(store.write(told), Severity.WARNING, "FailedScheduling", reason.text)

    def _tell_groups(self, plan: Plan) -> None:
        table = self._store.of(PodGroup)
        for key in dict.fromkeys((*plan.phases, *plan.conditions)):
            group = table.get(key)
            if group is None:
                continue  # a group in memory: nobody else reads it
            status = replace(group.status, phase=plan.phases.get(key, group.status.phase))
            said = plan.conditions.get(key)
            news = said is not None and not _says(group, said)
            if said is not None and news:
                status = replace(status, conditions=self._conditions(group, said))
            if status != group.status:
                group = self._store.write(replace(group, status=status))
            if said is not None and news:
                severity = Severity.WARNING if said.type == "Unschedulable" else Severity.NORMAL
                self._store.event(group, severity, said.type, said.message)

    def _conditions(self, group: PodGroup, said: GroupCondition) -> list[Condition]:
        """The group's conditions with the new one; its opposite, if there, no longer holds."""
        now = timestamp(self._store.clock.now())
        new = Condition(
            type=said.type,
            status="True",
            reason=said.reason,
            message=said.message,
            last_transition_time=now,
            transition_id=str(self._count),
        )
        others = []
        for old in group.status.conditions:
            if old.type == said.type:
                continue
            if old.status == "True" and old.type in ("Scheduled", "Unschedulable"):
                old = replace(old, status="False", last_transition_time=now)
            others.append(old)
        return [*others, new]


def _says(group: PodGroup, said: GroupCondition) -> bool:
    return any(
        (c.type, c.status, c.reason, c.message) == (said.type, "True", said.reason, said.message)
        for c in group.status.conditions
    )
