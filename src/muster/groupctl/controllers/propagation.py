"""PropagationPolicyController: binds applications to their policies, and evicts pods that are in the wrong node group.

Pods on nodes outside the groups of the policy are misplaced, pods above a group's quota are redundant. Both are evicted
only if another group misses pods and a component that places the replacement there is alive, within the limits of
`throttle` and in the order of `eviction_order`. A replacement in the wrong group is a failure (`replacements`). The
groups of a DaemonSet become a node affinity of its pods (`daemonset_affinity`). The result is written into the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from muster.groupctl.controllers.daemonset_affinity import MARK, DaemonSetAffinity
from muster.groupctl.controllers.deletion_cost import deletion_cost_rate, write_deletion_costs
from muster.groupctl.controllers.eviction_order import REPLACED_KINDS, eviction_blocker, eviction_order
from muster.groupctl.controllers.eviction_queue import EXTRA_CANDIDATES, EvictionQueue, EvictionRequest
from muster.groupctl.controllers.object_cache import Ref
from muster.groupctl.controllers.policy_controller import PolicyController, request_scheduling_retry
from muster.groupctl.controllers.propagation_status import (
    Distribution,
    PlacementState,
    policy_conditions,
    status_entry,
    unmet,
)
from muster.groupctl.controllers.replacements import (
    PlacerCheck,
    PodPlacer,
    always_alive,
    eviction_state,
    misplaced_replacement,
    misplacement_message,
    restore_throttle,
)
from muster.groupctl.controllers.retries import ignore
from muster.groupctl.controllers.throttle import STABLE_BEFORE_EVICTION_S, EvictionThrottle
from muster.groups.applications import Application, PolicyLabels
from muster.groups.propagation import PolicyProblem, PropagationRules
from muster.groups.quota_usage import QuotaUsage
from muster.model.batch import DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import Condition, Object
from muster.model.meta import key as key_of
from muster.model.pod_states import is_finished
from muster.store import Severity, Store
from muster.store.event_reasons import EventReason

RULE = "propagation"
_MIN_ANNOUNCED = 100  # pods that are announced as about to be evicted


def _ignore(app: Object, scheduler: str) -> None:
    """Ignores the failure."""


class PropagationPolicyController(PolicyController[PropagationPolicy, PlacementState]):
    """Reconciles the pods of applications with their PropagationPolicies.

    `retry_pending`: change a label of pending pods when something changes for them, so that kube-scheduler tries them
    again. `deletion_cost`: write the deletion cost of pods. `placer`: whether a component places replacements, by
    schedulerName. `failed` is called for every replacement in the wrong group, with the schedulerName.
    `daemonset_affinity`: why the groups of a DaemonSet are not written into its pod template; empty: they are.
    """

    def __init__(
        self,
        store: Store,
        evictions: EvictionQueue,
        *,
        retry_pending: bool = True,
        deletion_cost: bool = False,
        settle: float = STABLE_BEFORE_EVICTION_S,
        placer: PlacerCheck = always_alive,
        failed: Callable[[Object, str], None] = _ignore,
        daemonset_affinity: str = "",
        custom: Sequence[type[CustomApplication]] = (),
        report: Callable[[str], None] = ignore,
    ) -> None:
        super().__init__(
            store, evictions, RULE, PropagationPolicy, PolicyLabels.PROPAGATION, custom, report, marks=(MARK,)
        )
        self._retry_pending_pods = retry_pending
        self._placer = placer
        self._failed = failed
        self._daemonsets = DaemonSetAffinity(store, daemonset_affinity)
        self._blocked: dict[Ref, tuple[str, str]] = {}  # applications without a live placer: schedulerName, and why
        self._deletion_cost = deletion_cost
        self._deletion_cost_rate = deletion_cost_rate()
        self._settle = settle
        self._throttles: dict[Ref, EvictionThrottle] = {}

    @property
    def paused(self) -> int:
        """How many applications have no pods evicted because their replacements failed."""
        return sum(1 for throttle in list(self._throttles.values()) if throttle.failures)

    def _due_times(self) -> Iterator[tuple[Ref, float]]:
        yield from (
            (ref, throttle.check_at) for ref, throttle in self._throttles.items() if throttle.check_at is not None
        )
        yield from self._daemonsets.due_times()
        for ref, (scheduler, why) in self._blocked.items():
            if self._placer(scheduler) != why:
                yield ref, 0.0  # at once

    # --- one application

    def _reconcile(self, ref: Ref, app: Object, policy: PropagationPolicy) -> PlacementState:
        rules = self._apps.grouping.policies.read(key_of(policy))
        assert rules is not None  # the binding was checked against it
        throttle = self._throttles.get(ref)
        if throttle is None:
            throttle = self._throttles[ref] = restore_throttle(policy, app, self._settle)
        distribution = self._distribution(app, policy.metadata.name, rules)
        distribution.groups_without_nodes = self._apps.grouping.groups_without_nodes(rules)
        self._rebalance(ref, distribution, throttle, policy)
        if self._deletion_cost and not self._apps.is_rolling_out(app):
            wrote, again = write_deletion_costs(
                self._store, distribution, Application(app, ref), self._deletion_cost_rate
            )
            self._wrote = self._wrote or wrote
            if again is not None:
                throttle.check_at = again if throttle.check_at is None else min(throttle.check_at, again)
        status = status_entry(distribution)
        if isinstance(app, DaemonSet):
            unlabelled = self._apps.first_unlabelled_node(rules.groups)
            found = self._daemonsets.write(app, rules.groups, unlabelled)
            wrote, status.node_affinity, status.node_affinity_message = found
            self._wrote = self._wrote or wrote
        return PlacementState(status, unmet(distribution, throttle), throttle)

    def _on_unbind(self, ref: Ref, app: Object | None, before: str) -> None:
        self._throttles.pop(ref, None)
        self._blocked.pop(ref, None)
        self._evictions.announce(ref, frozenset())
        # While the required policy is invalid, pods stay pending, and so would new pods on other nodes.
        if isinstance(app, DaemonSet) and not app.metadata.labels.get(PolicyLabels.PROPAGATION.required):
            self._wrote = self._daemonsets.restore(app) or self._wrote

    def _invalid_reason(self, app: Object, policy: str) -> str | None:
        rules = self._apps.grouping.policies.read(f"{app.metadata.namespace or 'default'}/{policy}")
        if rules is None:
            return f"PropagationPolicy {policy} not found"
        return f"PropagationPolicy {policy} cannot be used: {rules.errors[0]}" if rules.errors else None

    def _distribution(self, app: Object, policy: str, rules: PropagationRules) -> Distribution:
        as_one = Application(app, (type(app).__name__, key_of(app)))
        found = Distribution(app, policy, rules, rules.quotas(as_one.replicas, as_one.uid))
        group_of = self._apps.grouping.group_of(tuple(rules.groups))
        existing = [pod for pods in self._apps.units(app) for pod in pods]
        for pod in existing:
            if self._evictions.counts_as_gone(pod):
                found.terminating += not is_finished(pod)
            elif not pod.spec.node_name:
                found.pending.append(pod)
            elif (group := group_of.get(pod.spec.node_name)) is not None:
                found.current.setdefault(group, []).append(pod)
            else:
                found.misplaced.append(pod)
        found.terminating += self._evictions.unreplaced(as_one.unit, existing)
        return found

    # --- evictions

    def _rebalance(
        self, ref: Ref, distribution: Distribution, throttle: EvictionThrottle, policy: PropagationPolicy
    ) -> None:
        now, app, replicas = self._store.clock.now(), distribution.app, distribution.quotas.replicas
        inputs = (distribution.policy, tuple(distribution.quotas.groups.items()), self._apps.version)
        if self._retry_pending_pods and throttle.inputs != inputs:
            self._retry_pending(distribution)
        placing = PodPlacer.of(app, self._override_of(app))
        throttle.observe(inputs, now, remedy=placing.remedy(policy))
        self._evictions.announce(ref, frozenset())
        self._blocked.pop(ref, None)
        if not isinstance(app, REPLACED_KINDS) and distribution.misplaced:
            bare = isinstance(app, Pod)
            why = "no owner would replace it" if bare else f"pods of a {type(app).__name__} are never evicted"
            distribution.eviction_blockers.update(
                {key_of(pod): why for pod in sorted(distribution.misplaced, key=key_of)}
            )
            self._evictions.report_blocked(app, distribution.eviction_blockers)
        if not isinstance(app, REPLACED_KINDS) or replicas is None or self._apps.is_rolling_out(app):
            return
        usage = QuotaUsage(distribution.quotas, distribution.counts)
        excess = usage.excess()
        if not excess and not distribution.misplaced:
            if not distribution.moving:
                throttle.reset_failures()
                throttle.batch_start = None
            return
        self._check_replacements(distribution, excess, throttle, placing, policy)
        distribution.blocked_by = self._placer(placing.scheduler)
        if distribution.blocked_by:
            self._blocked[ref] = placing.scheduler, distribution.blocked_by
            return
        lacking = sum(usage.missing(group) for group in self._apps.schedulable_groups(distribution.rules.groups))
        budget = lacking - len(distribution.pending) - distribution.terminating
        if budget <= 0:
            return
        allowed = min(budget, throttle.allowance(replicas, distribution.moving, len(distribution.pending), now))
        found = list(
            islice(self._candidates(distribution, excess), max(min(budget, _MIN_ANNOUNCED), allowed + EXTRA_CANDIDATES))
        )
        if now >= throttle.paused_until:
            self._evictions.announce(ref, frozenset(pod.metadata.uid for pod in found[:budget]))
        by = ("PropagationPolicy", distribution.policy)
        request = EvictionRequest(app, by, found, allowed, distribution.moving, throttle, f"as {' '.join(by)} wants it")
        self._evictions.request(RULE, ref, request)
        if not found:
            self._evictions.report_blocked(app, distribution.eviction_blockers)

    def _check_replacements(
        self,
        distribution: Distribution,
        excess: dict[str, int],
        throttle: EvictionThrottle,
        placing: PodPlacer,
        policy: PropagationPolicy,
    ) -> None:
        """Records a replacement in the wrong group: evicting more pods would only repeat that."""
        wrong = misplaced_replacement(distribution, excess, throttle)
        if wrong is None:
            return
        text = misplacement_message(*wrong, placing)
        if throttle.record_misplacement(text, self._store.clock.now()):
            self._failed(distribution.app, placing.scheduler)
            for about in (distribution.app, policy):
                self._store.event(about, Severity.WARNING, EventReason.WRONG_GROUP, text)

    def _override_of(self, app: Object) -> OverridePolicy | None:
        name = app.metadata.labels.get(PolicyLabels.OVERRIDE.binding, "")
        return self._apps.cache.of(OverridePolicy).get(f"{app.metadata.namespace or 'default'}/{name}")

    def _candidates(self, distribution: Distribution, excess: dict[str, int]) -> Iterator[Pod]:
        """The pods to evict: misplaced pods, then redundant pods of the groups with the largest excess first."""
        yield from self._evictable(distribution, distribution.misplaced, len(distribution.misplaced))
        for group in sorted(excess, key=lambda g: -excess[g]):
            yield from self._evictable(distribution, distribution.current[group], excess[group])

    def _evictable(self, distribution: Distribution, pods: list[Pod], most: int) -> Iterator[Pod]:
        for pod in eviction_order(pods, by_ordinal=isinstance(distribution.app, StatefulSet)):
            if most <= 0:
                return
            why = eviction_blocker(pod, self._apps.cache)
            if why is None:
                most -= 1
                yield pod
            else:
                distribution.eviction_blockers[key_of(pod)] = why

    def _retry_pending(self, distribution: Distribution) -> None:
        group_of = self._apps.grouping.group_of(tuple(distribution.rules.groups))
        seen = (distribution.policy, list(distribution.quotas.groups.items()), sorted(group_of.items()))
        self._wrote = request_scheduling_retry(self._store, distribution.pending, seen) or self._wrote

    # --- status and events

    def _policy_warnings(self, policy: PropagationPolicy) -> list[PolicyProblem]:
        rules = self._apps.grouping.policies.read(key_of(policy))
        if rules is None:
            return []
        return [*rules.errors, *rules.warnings, *self._empty(rules), *self._overlaps(rules)]

    def _empty(self, rules: PropagationRules) -> Iterator[PolicyProblem]:
        for group in self._apps.grouping.groups_without_nodes(rules):
            if group not in rules.unknown:
                yield PolicyProblem(
                    "spec", f"node group {group} has no nodes: its share waits", "add a node, or its label"
                )

    def _overlaps(self, rules: PropagationRules) -> Iterator[PolicyProblem]:
        shared = self._apps.grouping.overlaps(tuple(rules.groups))
        for node, groups in list(shared.items())[:1]:
            others = f", and so for {len(shared) - 1} others" if len(shared) > 1 else ""
            message = f"node {node} is in {' and '.join(groups)}: it counts for {groups[0]}, named first{others}"
            yield PolicyProblem("spec", message, "name the group first that shall have it")

    def _conditions(self, policy: PropagationPolicy, records: list[PlacementState]) -> Iterator[Condition]:
        rules = self._apps.grouping.policies.read(key_of(policy))
        assert rules is not None  # the grouping has all policies
        empty = [problem.message for problem in self._empty(rules)]
        for record in records:
            record.status = replace(
                record.status, evictions=eviction_state(record.throttle)
            )  # after the evictions of this run
        yield from policy_conditions(rules, empty, records, policy.metadata.generation)
