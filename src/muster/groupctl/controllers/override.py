"""OverridePolicyController: binds applications to their policies, and rolls out the editions of groups to their pods.

In a running pod only images and metadata can change. They are patched, a tenth of an application at a time. A pod that
differs in other fields is evicted, within the limits of all evictions, so that its owner replaces it; but only if a
webhook is alive that creates the replacement in its edition, else the policy's status reports what is missing. The
expected pod is computed from the template it was created from, never from the pod: adding is not idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.groupctl.controllers.editions import (
    MARK,
    EditionCache,
    ExpectedPod,
    Template,
    TemplateRevisions,
    record_override,
    recorded_override,
    template_id,
)
from muster.groupctl.controllers.eviction_order import REPLACED_KINDS, eviction_blocker, eviction_order
from muster.groupctl.controllers.eviction_queue import EvictionQueue, EvictionRequest
from muster.groupctl.controllers.object_cache import Ref
from muster.groupctl.controllers.override_status import (
    NEEDS_PROPAGATION,
    NOT_EVICTED,
    WEBHOOK_REQUIRED,
    OutdatedPod,
    RolloutState,
    override_conditions,
)
from muster.groupctl.controllers.policy_controller import PolicyController, request_scheduling_retry
from muster.groupctl.controllers.retries import ignore
from muster.groupctl.controllers.throttle import (
    STABLE_BEFORE_EVICTION_S,
    EvictionThrottle,
    ReplacementFailure,
    RestartThrottle,
)
from muster.groups.applications import BindingState, PolicyLabels, binding_state, template_path
from muster.groups.assignment import EDITION, OPT_IN, edition_name
from muster.groups.override import faults
from muster.groups.override.policy import Bases, unknown_targets, warnings
from muster.groups.propagation import PolicyProblem
from muster.model.batch import StatefulSet
from muster.model.core import Namespace, Pod
from muster.model.custom import CustomApplication
from muster.model.groups import NodeGroup, OverridePolicy, OverridePolicySpec
from muster.model.meta import Condition, Object, seconds
from muster.model.meta import key as key_of
from muster.model.pod_states import is_finished, is_ready
from muster.store import NotFound, Severity, Store
from muster.store.errors import Forbidden, Invalid
from muster.store.event_reasons import EventReason

RULE = "override"
_REFUSED_METADATA_RETRY_S = 60.0  # until labels that the API server refused are written again
_REVERT_CHECK_S = 1.0  # between checks of an application whose pods are reverted


def _no_webhook() -> bool:
    """No webhook is alive."""
    return False


class OverridePolicyController(PolicyController[OverridePolicy, RolloutState]):
    """Reconciles the pods of applications with their OverridePolicies.

    `privileged`: policies may grant privileges that templates do not have. `rest`: seconds that a kubelet has to
    restart a pod whose image was changed. `webhook`: whether a webhook is alive that creates pods in their edition.
    `revert`: pods of an application that requires no policy any more get their template back. `retry_pending`: change a
    label of pending pods when their application is bound, so that kube-scheduler tries them again.
    """

    def __init__(
        self,
        store: Store,
        evictions: EvictionQueue,
        *,
        privileged: bool = False,
        rest: float = 0.0,
        settle: float = STABLE_BEFORE_EVICTION_S,
        webhook: Callable[[], bool] = _no_webhook,
        revert: bool = False,
        retry_pending: bool = True,
        custom: Sequence[type[CustomApplication]] = (),
        report: Callable[[str], None] = ignore,
    ) -> None:
        super().__init__(store, evictions, RULE, OverridePolicy, PolicyLabels.OVERRIDE, custom, report, marks=(MARK,))
        self._privileged = privileged
        self._restarts = RestartThrottle(rest)
        self._settle = settle
        self._webhook = webhook
        self._revert = revert
        self._retry_pending_pods = retry_pending
        self._bases = [template_path(kind) for kind in custom]
        self._alive = False
        self._revisions = TemplateRevisions(store, self._apps.cache)
        self._editions: dict[Ref, EditionCache] = {}
        self._throttles: dict[Ref, EvictionThrottle] = {}
        self._check_times: dict[Ref, float] = {}  # when applications are reconciled again without a change
        # application → the policy that was last applied to its pods, and its spec then
        self._applied: dict[Ref, tuple[str, OverridePolicySpec]] = {}
        self._compared: dict[
            str, tuple[ExpectedPod, list[str]]
        ] = {}  # pod's uid → what it was compared with, and the result
        # policy and template paths → its spec, its problems
        self._faults: dict[tuple[object, ...], tuple[OverridePolicySpec, list[PolicyProblem]]] = {}

    def run(self) -> bool:
        alive, self._alive = self._alive, self._webhook()
        if alive != self._alive:
            now = self._store.clock.now()
            self._check_times.update({ref: now for ref, (_, state) in self._records.items() if state.to_replace})
        return super().run()

    def _due_times(self) -> Iterator[tuple[Ref, float]]:
        yield from self._check_times.items()
        yield from (
            (ref, throttle.check_at) for ref, throttle in self._throttles.items() if throttle.check_at is not None
        )

    def _invalid_reason(self, app: Object, policy: str) -> str | None:
        key = f"{app.metadata.namespace or 'default'}/{policy}"
        found = self._apps.cache.of(OverridePolicy).get(key)
        if found is None:
            return f"OverridePolicy {policy} not found"
        wrong = self._faults_of(key, found.spec, (template_path(type(app)),))
        return f"OverridePolicy {policy} cannot be used: {wrong[0]}" if wrong else None

    def _faults_of(self, key: str, spec: OverridePolicySpec, bases: Bases) -> list[PolicyProblem]:
        at = (key, *bases)
        known = self._faults.get(at)
        if known is None or known[0] is not spec:
            known = self._faults[at] = (spec, faults(spec, bases))
        return known[1]

    # --- one application

    def _reconcile(self, ref: Ref, app: Object, policy: OverridePolicy) -> RolloutState:
        self._check_times.pop(ref, None)
        if self._retry_pending_pods and app.metadata.labels.get(PolicyLabels.OVERRIDE.binding) != policy.metadata.name:
            # Newly bound: an extender with --gate-override has refused its pods until now.
            waiting = [p for unit in self._apps.units(app) for p in unit if not is_finished(p) and not p.spec.node_name]
            seen = (policy.metadata.name, app.metadata.resource_version)
            self._wrote = request_scheduling_retry(self._store, waiting, seen) or self._wrote
        self._applied[ref] = (policy.metadata.name, policy.spec)
        if self._revert:
            self._wrote = record_override(self._store, app, *self._applied[ref]) or self._wrote
        state = self._rollout_state(ref, app, policy.spec, policy)
        state.blocked_by = self._replacement_blocker(app, state)
        self._roll_out(ref, app, state, f"as OverridePolicy {policy.metadata.name} wants it")
        return state

    def _on_unbind(self, ref: Ref, app: Object | None, before: str) -> None:
        """The policy is not required any more: pods stay as they are, unless `revert` is set."""
        self._check_times.pop(ref, None)
        required = app is not None and bool(app.metadata.labels.get(PolicyLabels.OVERRIDE.required))
        if app is not None and not required:
            # After a restart of the controller, the application carries the applied policy.
            applied = self._applied.get(ref) or recorded_override(app)
            if applied is None and before:
                policy = self._apps.cache.of(OverridePolicy).get(f"{app.metadata.namespace or 'default'}/{before}")
                applied = None if policy is None else (before, policy.spec)
            if self._revert and applied is not None:
                self._applied[ref] = applied
                self._wrote = record_override(self._store, app, *applied) or self._wrote
                state = self._rollout_state(ref, app, applied[1], None)
                state.blocked_by = "" if isinstance(app, REPLACED_KINDS) else NOT_EVICTED  # reverting needs no webhook
                self._roll_out(ref, app, state, f"without OverridePolicy {applied[0]}")
                if any(entry.images or entry.metadata or not state.blocked_by for entry in state.outdated):
                    self._check_times.setdefault(ref, self._store.clock.now() + _REVERT_CHECK_S)
                    return
            self._wrote = record_override(self._store, app, "", None) or self._wrote
        if required:
            return  # its policy is missing or invalid for now: the applied policy stays recorded
        self._restarts.forget(ref)
        for table in (self._editions, self._throttles, self._applied):
            table.pop(ref, None)

    def _rollout_state(
        self, ref: Ref, app: Object, spec: OverridePolicySpec, policy: OverridePolicy | None
    ) -> RolloutState:
        """Compares the pods on nodes with their editions; without a policy, with their template."""
        pods = [pod for unit in self._apps.units(app) for pod in unit if not is_finished(pod)]
        stay = [pod for pod in pods if not self._evictions.counts_as_gone(pod)]
        unreplaced = self._evictions.unreplaced(ref, pods)
        state = RolloutState.of(app, [pod for pod in stay if pod.spec.node_name], pods, unreplaced)
        editions, groups_of = self._editions.setdefault(ref, EditionCache()), self._apps.edition_groups(app)
        bases = (template_path(type(app)),)
        makers: dict[tuple[str, str, int | None], tuple[str, Template] | None] = {}
        for pod in state.placed:
            groups, mark = groups_of(pod.spec.node_name), template_id(app, pod)
            if mark not in makers:
                makers[mark] = self._revisions.of(app, pod)
            maker = makers[mark]
            if not groups or maker is None:
                continue
            wanted = editions.of(spec, *maker, groups, privileged=self._privileged, bases=bases, revert=policy is None)
            if wanted.fault:
                state.edition_errors.append(wanted.fault)
                continue
            beyond = self._immutable_changes(pod, wanted, policy, groups[0]) if wanted.needs_replacement else []
            images, meta = wanted.images_to_change(pod), wanted.metadata_to_change(pod)
            if images or meta or beyond:
                state.outdated.append(OutdatedPod(pod, groups[0], images, meta, beyond))
            else:
                state.status.editions[groups[0]] = state.status.editions.get(groups[0], 0) + 1
        state.status.editions = dict(sorted(state.status.editions.items()))
        state.status.outdated = len(state.outdated)
        return state

    def _immutable_changes(self, pod: Pod, wanted: ExpectedPod, policy: OverridePolicy | None, group: str) -> list[str]:
        """The fields that only a replacement can change. A pod with the edition's name was created in that edition."""
        mark = pod.metadata.annotations.get(EDITION)
        if mark and policy is not None and mark == edition_name(policy, group):
            return []
        known = self._compared.get(pod.metadata.uid)
        if known is None or known[0] is not wanted:
            try:
                found = wanted.immutable_changes(self._store.whole(Pod, key_of(pod)))
            except NotFound:
                return []  # deleted by now: the watch will report it
            if len(self._compared) > 100_000:
                self._compared.clear()
            known = self._compared[pod.metadata.uid] = (wanted, found)
        return known[1]

    def _replacement_blocker(self, app: Object, state: RolloutState) -> str:
        """Why pods that need a replacement are not evicted; empty: they may be."""
        if not isinstance(app, REPLACED_KINDS):
            return NOT_EVICTED
        if binding_state(app.metadata.labels, PolicyLabels.PROPAGATION) in (BindingState.FREE, BindingState.STALE):
            sure_of = self._apps.grouping.certain_groups
            if not all(entry.group in sure_of(entry.pod.spec) for entry in state.to_replace):
                return NEEDS_PROPAGATION
        namespace = self._apps.cache.of(Namespace).get(app.metadata.namespace or "default")
        opted = namespace is not None and namespace.metadata.labels.get(OPT_IN) == "enabled"
        return "" if self._alive and opted else WEBHOOK_REQUIRED

    # --- writes

    def _roll_out(self, ref: Ref, app: Object, state: RolloutState, why: str) -> None:
        throttle = self._throttles.setdefault(ref, EvictionThrottle(self._settle))
        throttle.observe((*self._applied[ref], state.blocked_by, why), self._store.clock.now(), self._apps.version)
        anew = [] if state.blocked_by else state.to_replace
        patched = [entry for entry in state.outdated if state.blocked_by or not entry.immutable_changes]
        self._patch(ref, patched, state)
        if anew and not self._apps.is_rolling_out(app):
            self._replace(ref, app, state, anew, why)

    def _replace(self, ref: Ref, app: Object, state: RolloutState, anew: list[OutdatedPod], why: str) -> None:
        """Requests evictions of pods that need a replacement, each in its own group."""
        throttle, now = self._throttles[ref], self._store.clock.now()
        # Created after the last eviction, and not in its edition: the next replacement would be the same.
        late = [entry.pod for entry in anew if throttle.is_replacement(seconds(entry.pod.metadata.creation_timestamp))]
        if late:
            state.failure = f"pod {late[0].metadata.name} was made without its edition"
            throttle.record_misplacement(state.failure, now)
        elif throttle.failure is ReplacementFailure.WRONG and not state.moving:
            throttle.reset_failures()
        allowed = throttle.allowance(state.count, state.moving, state.unscheduled, now)
        homes = self._apps.schedulable_edition_groups(app)
        open_ = {entry.pod.metadata.uid for entry in anew if entry.group in homes}
        order = eviction_order([entry.pod for entry in anew], by_ordinal=isinstance(app, StatefulSet))
        why_not = {
            key_of(pod): reason for pod in order if (reason := eviction_blocker(pod, self._apps.cache)) is not None
        }
        candidates = [pod for pod in order if pod.metadata.uid in open_ and key_of(pod) not in why_not]
        if allowed > 0 and not candidates:
            self._evictions.report_blocked(app, why_not)
        by = ("OverridePolicy", self._applied[ref][0])
        request = EvictionRequest(app, by, candidates, allowed, state.moving, throttle, f"to be replaced {why}")
        self._evictions.request(RULE, ref, request)

    def _patch(self, ref: Ref, outdated: list[OutdatedPod], state: RolloutState) -> None:
        """Patches images and metadata: of pods that are not ready at once, of the others a tenth at a time.

        A pod that is about to be evicted is not patched: the restart would be useless.
        """
        now, going = self._store.clock.now(), self._evictions.announced(ref)
        allowed, wake = self._restarts.allowance(ref, state.placed, state.count, now)
        for entry in sorted(outdated, key=lambda entry: key_of(entry.pod)):
            pod, images, meta = entry.pod, entry.images, entry.metadata
            if pod.metadata.uid in going or (not images and not meta):
                continue
            if images and is_ready(pod):
                if allowed <= 0:
                    if wake is not None:
                        self._check_times[ref] = wake
                    continue
                allowed -= 1
                wake = self._restarts.begin(ref, pod, now)
            key = key_of(pod)
            try:
                if images:
                    self._store.set_images(key, images, uid=pod.metadata.uid)
                if meta:
                    entry.refusal = self._patch_metadata(key, meta)
            except NotFound:
                continue
            if entry.refusal:
                self._check_times[ref] = now + _REFUSED_METADATA_RETRY_S
                if not images:
                    continue
            self._wrote = True
            changes = ", ".join(f"{name} to {image}" for name, image in images.items()) or "metadata"
            self._store.event(pod, Severity.NORMAL, EventReason.EDITION, f"changed {changes}")

    def _patch_metadata(self, key: str, meta: Template) -> str:
        """Writes labels and annotations of a pod; returns why the API server refused them, empty if it did not."""
        try:
            self._store.patch(Pod, key, {"metadata": meta})
        except (Forbidden, Invalid) as fault:
            return str(fault)
        return ""

    # --- status and events

    def _policy_warnings(self, policy: OverridePolicy) -> list[PolicyProblem]:
        key = key_of(policy)
        records = [state for of, state in self._records.values() if of == key]
        refused = [
            PolicyProblem(f"{state.status.kind} {state.status.name}", why)
            for state in records
            for why in state.edition_errors
        ]
        usable = [*self._faults_of(key, policy.spec, self._bases), *warnings(policy.spec), *self._unknown(policy)]
        return [*usable, *dict.fromkeys(refused)]

    def _unknown(self, policy: OverridePolicy) -> Iterator[PolicyProblem]:
        return unknown_targets(policy.spec, self._apps.cache.of(NodeGroup))

    def _conditions(self, policy: OverridePolicy, records: list[RolloutState]) -> Iterator[Condition]:
        wrong = [str(fault) for fault in self._faults_of(key_of(policy), policy.spec, self._bases)]
        unknown = [problem.message for problem in self._unknown(policy)]
        return override_conditions(wrong, unknown, records, policy.metadata.generation)
