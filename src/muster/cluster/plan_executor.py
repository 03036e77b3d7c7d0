"""Applies a plan to the in-memory store: bindings, evictions, conditions, statuses and events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.cluster.volume_controller import settle_claim
from muster.cycle import plan_effects
from muster.cycle.plan_effects import PlanEvent
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.podgroups import GROUP
from muster.model.core import Pod
from muster.model.meta import key as key_of
from muster.model.pod_states import is_terminating
from muster.model.scheduling import PodGroup
from muster.store import ApiError


@dataclass(slots=True)
class Outcome:
    """The result of a plan: the pods that were bound and evicted, and what failed with its reason."""

    bound: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class PlanExecutor:
    """Applies a plan to the in-memory store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._count = 0
        # pods with a nomination, of the input and of the last plan without reasons
        self._nominated = {key for key, pod in store.of(Pod).items() if pod.status.nominated_node_name}

    def execute(self, plan: Plan) -> Outcome:
        self._count += 1
        outcome = Outcome()
        self._evict(plan.evictions, outcome)
        for key, node in plan.binds.items():
            self._bind(plan, key, node, outcome)
        self._update_pods(plan)
        self._update_groups(plan)
        return outcome

    def _record(self, events: Iterable[PlanEvent]) -> None:
        for event in events:
            self._store.event(*event)

    def _bind(self, plan: Plan, key: str, node: str, outcome: Outcome) -> None:
        store = self._store
        try:
            for claim, values in plan.claims_of(key):
                settle_claim(store, claim, values.get("volumeName", ""), node)
            pod = store.bind(key, node, plan.annotations_of(key))
        except ApiError as error:
            outcome.failed[key] = str(error)
            waiting = store.of(Pod).get(key)
            if waiting is not None:
                self._record([plan_effects.binding_failed(waiting, str(error))])
            return
        outcome.bound[key] = node
        self._record(plan_effects.binding_events([(pod, node)], None))

    def _evict(self, evictions: list[Eviction], outcome: Outcome) -> None:
        table = self._store.of(Pod)
        done: list[tuple[Eviction, Pod]] = []
        for eviction in evictions:
            key = eviction.pod
            pod = table.get(key)
            if pod is None or is_terminating(pod):
                outcome.failed[key] = "is gone or terminating already"
                continue
            self._store.evict(key, by=plan_effects.claimer_shown(eviction), rule=eviction.rule)
            outcome.evicted.append(key)
            done.append((eviction, pod))
        claimers = [pod for by in dict.fromkeys(e.by for e, _ in done) if (pod := table.get(by)) is not None]
        group_of = self._groups_of([*claimers, *(pod for _, pod in done)])
        self._record(plan_effects.victim_events(done, group_of))
        self._record(plan_effects.claimer_events([e for e, _ in done], claimers, group_of))

    def _groups_of(self, members: list[Pod]) -> dict[str, PodGroup]:
        table, found = self._store.of(PodGroup), {}
        for pod in members:
            key = key_of(pod)
            group = table.get(f"{key.partition('/')[0]}/{pod.metadata.annotations.get(GROUP, '')}")
            if group is not None:
                found[key] = group
        return found

    def _update_pods(self, plan: Plan) -> None:
        """Writes why each pending pod has no node, and the node that is kept for it."""
        store, now = self._store, self._store.clock.now()
        table = store.of(Pod)
        if not plan.reasons:
            self._nominate(plan)
        for key, reason in plan.reasons.items():
            pod = table.get(key)
            if pod is None or not plan_effects.gets_condition(pod):
                continue
            updated = plan_effects.unschedulable(pod, reason.text, plan_effects.nomination(plan, key), now)
            if updated is not pod:
                self._record([plan_effects.pending_event(store.write(updated), reason.text)])

    def _nominate(self, plan: Plan) -> None:
        """Writes only the nodes that are kept for pods: the plan has no reasons."""
        table = self._store.of(Pod)
        gone = self._nominated - plan.nominated.keys()
        for key, node in (*plan.nominated.items(), *((key, "") for key in sorted(gone))):
            pod = table.get(key)
            if pod is not None and not pod.spec.node_name and pod.status.nominated_node_name != node:
                self._store.write(replace(pod, status=replace(pod.status, nominated_node_name=node)))
        self._nominated = set(plan.nominated)

    def _update_groups(self, plan: Plan) -> None:
        table = self._store.of(PodGroup)
        for key in dict.fromkeys((*plan.phases, *plan.conditions)):
            group = table.get(key)
            if group is None:
                continue  # a group in memory has no object
            condition, now = plan.conditions.get(key), self._store.clock.now()
            status, is_new = plan_effects.group_status(group, plan.phases.get(key), condition, str(self._count), now)
            if status != group.status:
                group = self._store.write(replace(group, status=status))
            if condition is not None and is_new:
                self._record([plan_effects.group_event(group, condition)])
